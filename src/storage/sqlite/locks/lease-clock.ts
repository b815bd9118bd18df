import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import type { Connection } from '../connection/connection.ts'

/**
 * The clock of lock leases: the host's monotonic clock in whole milliseconds. All processes of the host share it, and a
 * change of the wall clock does not affect it. It starts again when the host boots, so the store records the boot to
 * which its times belong.
 */
export function readLeaseClock(connection: Pick<Connection, 'testedNow'>): number {
  const tested = connection.testedNow()
  if (tested !== undefined) return tested
  const [seconds, nanos] = process.hrtime()
  return seconds * 1_000 + Math.floor(nanos / 1_000_000)
}

let known: number | undefined

/**
 * The difference of the wall clock to the lease clock, in milliseconds. Both clocks count whole milliseconds, so two
 * readings differ by up to one each time, and a lease would seem to end at another time at each look. So the difference
 * is measured once, at a tick of the wall clock, where it is exact, and again after the wall clock was set.
 */
export function readWallAhead(connection: Pick<Connection, 'testedNow'>): number {
  // A test's clock is both clocks.
  if (connection.testedNow() !== undefined) return 0
  const rough = Date.now() - preciseLeaseClock()
  // The wall clock shows the start of its millisecond, so it may be up to one millisecond behind.
  if (known === undefined || rough < known - setByMs - 1 || rough > known + setByMs) known = measureAhead()
  return Math.round(known)
}

/** A clock under correction drifts slowly. A larger difference means that it was set. */
const setByMs = 2
/** A tick comes within one millisecond. A wall clock that stands still belongs to a test. */
const patienceMs = 5

function measureAhead(): number {
  const before = Date.now()
  const begun = preciseLeaseClock()
  for (;;) {
    const wall = Date.now()
    const lease = preciseLeaseClock()
    if (wall !== before || lease - begun > patienceMs) return wall - lease
  }
}

function preciseLeaseClock(): number {
  const [seconds, nanos] = process.hrtime()
  return seconds * 1_000 + nanos / 1_000_000
}

/** Identifies this boot of the host. */
export function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    // On other systems: the minute of the boot, which is precise enough to be equal in all processes.
    return `since ${Math.round((Date.now() / 1_000 - uptime()) / 60)}`
  }
}

/**
 * After a boot, all stored leases belong to a clock that no longer exists. Holders get their full lease again, and
 * waiters get time to reconnect. No process from before the boot is still running.
 */
export function rebaseLeases(connection: Connection, bootId: string, now: number): void {
  const kept = connection.get<{ value: string }>(`SELECT value FROM signalbox_meta WHERE key = 'boot_id'`)
  if (kept?.value === bootId) return
  connection.run(
    `INSERT INTO signalbox_meta (key, value) VALUES ('boot_id', ?1)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    bootId,
  )
  connection.run(
    `UPDATE lock_queue
     SET grant_from = 0, lease_ends_at = ?1 + holder_ttl_ms,
         take_up_by = CASE WHEN take_up_by IS NULL THEN NULL ELSE ?1 + 10000 END,
         due_at = CASE WHEN holder_node IS NULL THEN ?1 WHEN take_up_by IS NULL THEN ?1 + holder_ttl_ms ELSE ?1 + 10000 END`,
    now,
  )
  connection.run(
    `UPDATE lock_waiter
     SET lease_ends_at = ?1 + 30000, deadline_at = CASE WHEN deadline_at IS NULL THEN NULL ELSE ?1 + 30000 END`,
    now,
  )
  connection.run(`UPDATE lock_outcome SET kept_until = ?1 + 60000`, now)
}

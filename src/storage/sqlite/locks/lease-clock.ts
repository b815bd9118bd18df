import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import type { Connection } from '../connection/connection.ts'

/**
 * The clock of lock leases: the host's monotonic one, in whole milliseconds, which all processes of the host share and
 * no change of the time moves. It begins anew when the host boots, so the store keeps which boot its instants are of.
 */
export function readLeaseClock(connection: Pick<Connection, 'testedNow'>): number {
  const tested = connection.testedNow()
  if (tested !== undefined) return tested
  const [seconds, nanos] = process.hrtime()
  return seconds * 1_000 + Math.floor(nanos / 1_000_000)
}

let known: number | undefined

/**
 * By how many milliseconds the wall clock is ahead of the lease clock. Two readings of clocks that count in whole
 * milliseconds differ by one more or less each time, and a lease would seem to end at another instant whenever it is
 * looked at. So it is measured once, at a tick of the wall clock, where it is exact; and again when the clock was set.
 */
export function readWallAhead(connection: Pick<Connection, 'testedNow'>): number {
  // The clock of a test is both.
  if (connection.testedNow() !== undefined) return 0
  const rough = Date.now() - preciseLeaseClock()
  // The wall clock shows the beginning of its millisecond: it is up to one behind.
  if (known === undefined || rough < known - setByMs - 1 || rough > known + setByMs) known = measureAhead()
  return Math.round(known)
}

/** A clock that is being corrected creeps; beyond this it was set. */
const setByMs = 2
/** A tick comes within one; a wall clock that stands still is some test's. */
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

/** Tells this boot of the host from others. */
export function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    // Elsewhere: the minute of the boot, which is near enough to be the same for all that ask.
    return `since ${Math.round((Date.now() / 1_000 - uptime()) / 60)}`
  }
}

/**
 * After a boot every lease in the store is of a clock that is gone. Holders get their whole time again, and those who
 * wait the time to come back; a process that took part before the boot is not running any more.
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

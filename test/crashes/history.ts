/**
 * The calls of a campaign's processes, one JSON line per event, one file per process. A writer waits until its line is
 * written, so kill -9 loses at most the present line. Times are the host's monotonic clock, which all processes share.
 *
 * `invoke` is written before a call and `ok` after it. `fail` means that it certainly had no effect; `info` that its
 * effect is unknown (the connection broke, or the process was killed in between).
 */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

export interface HistoryEvent {
  /** Milliseconds of CLOCK_MONOTONIC. */
  readonly t: number
  readonly proc: string
  readonly type: 'invoke' | 'ok' | 'fail' | 'info'
  readonly op: 'add' | 'claim' | 'renew' | 'settle' | 'settleIn' | 'transact' | 'begin' | 'note'
  /** What the call was about: jobs added, leases granted or renewed, verdicts. */
  readonly items: readonly HistoryItem[]
  /** The error's code or message, or whatever a handler has to say. */
  readonly detail?: string
}

export interface HistoryItem {
  readonly job: string
  readonly token?: string
  /** The lease's end by the database's clock. */
  readonly leaseEndsAt?: number
  readonly leaseMs?: number
  readonly attempt?: number
  readonly handBackCount?: number
  readonly snoozeCount?: number
  /** What a verdict makes of the job. */
  readonly state?: string
  /** Whether a verdict took. */
  readonly took?: boolean
}

export interface Recorder extends Disposable {
  readonly proc: string
  write(event: Omit<HistoryEvent, 't' | 'proc'>): void
}

export function createRecorder(folder: string, proc: string): Recorder {
  const file = openSync(join(folder, `${proc}.history`), 'a')
  return {
    proc,
    write(event) {
      writeSync(file, `${JSON.stringify({ t: now(), proc, ...event })}\n`)
    },
    [Symbol.dispose]: () => closeSync(file),
  }
}

/** Writes nothing. */
export function createSilence(proc: string): Recorder {
  return { proc, write() {}, [Symbol.dispose]() {} }
}

function now(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** All events of a folder, in the order of time. */
export function readHistory(folder: string): readonly HistoryEvent[] {
  const events: HistoryEvent[] = []
  for (const name of readdirSync(folder)) {
    if (!name.endsWith('.history')) continue
    const lines = readFileSync(join(folder, name), 'utf8').split('\n')
    // A killed process may have left half a line, as its last.
    lines.pop()
    for (const line of lines) events.push(JSON.parse(line) as HistoryEvent)
  }
  return events.sort((a, b) => a.t - b.t)
}

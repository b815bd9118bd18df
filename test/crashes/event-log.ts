/**
 * The events of a campaign's processes, one JSON line per event, one file per process. A writer waits until its line is
 * written, so kill -9 loses at most the present line.
 */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

export interface EventLog<Event> extends Disposable {
  write(event: Event): void
}

const ending = '.events'

export function createEventLog<Event>(folder: string, proc: string): EventLog<Event> {
  const file = openSync(join(folder, `${proc}${ending}`), 'a')
  return {
    write: (event) => void writeSync(file, `${JSON.stringify(event)}\n`),
    [Symbol.dispose]: () => closeSync(file),
  }
}

/** All events of a folder; those of one process in order. */
export function readEventLogs<Event>(folder: string): readonly Event[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(ending))
  return files.flatMap((name) => {
    // A killed process may have left half a line, as its last.
    const lines = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1)
    return lines.map((line) => JSON.parse(line) as Event)
  })
}

/** Milliseconds of the host's monotonic clock, which all processes share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

import type { SchedulesClient, WireSchedule } from '../../../src/http/client/index.ts'
import { spanOf, writeSpan } from '../../kit/text/span.ts'

/** What stands in the fields of the form. */
export interface Written {
  readonly name: string
  readonly by: 'cron' | 'everyMs'
  readonly cron: string
  readonly timeZone: string
  readonly everyMs: string
  readonly catchUp: WireSchedule['catchUp']
  readonly kind: string
  readonly queue: string
  readonly payload: string
}

export type Field = keyof Written
type SetOptions = Parameters<SchedulesClient['set']>[1]

/** A schedule as it is written into the form; without one, an empty form. */
export function write(schedule: WireSchedule | undefined, timeZone: string): Written {
  if (schedule === undefined) {
    const nothing = { name: '', cron: '', everyMs: '', kind: '', queue: '', payload: '' }
    return { ...nothing, by: 'cron', timeZone, catchUp: 'one' }
  }
  const { name, cron, everyMs, catchUp, job } = schedule
  return {
    ...{ name, catchUp, kind: job.kind, queue: job.queue },
    by: cron === null ? 'everyMs' : 'cron',
    cron: cron ?? '',
    timeZone: schedule.timeZone ?? timeZone,
    everyMs: everyMs === null ? '' : writeSpan(everyMs),
    payload: job.payload === null ? '' : JSON.stringify(job.payload, null, 2),
  }
}

/**
 * The request that saves the form. `set` replaces the whole schedule, so options without a field are sent unchanged.
 * Throws a SyntaxError when the payload is not JSON.
 */
export function optionsOf(written: Written, before: WireSchedule | undefined): SetOptions {
  const { by, cron, timeZone, catchUp, kind, queue, payload } = written
  const everyMs = spanOf(written.everyMs)
  const isSameRate = before !== undefined && written.everyMs === writeSpan(before.everyMs ?? 0)
  return {
    ...(by === 'cron'
      ? { cron: cron.trim(), ...(timeZone.trim() === '' ? {} : { timeZone: timeZone.trim() }) }
      : { everyMs, ...(isSameRate && before.startAt !== null ? { startAt: before.startAt } : {}) }),
    catchUp,
    ...(before === undefined || before.endAt === null ? {} : { endAt: before.endAt }),
    job: {
      ...(before === undefined ? {} : kept(before.job)),
      kind: kind.trim(),
      ...(queue.trim() === '' ? {} : { queue: queue.trim() }),
      ...(payload.trim() === '' ? {} : { payload: JSON.parse(payload) }),
    },
  }
}

/** What the form has no fields for. */
function kept({ kind: _, queue: __, payload: ___, ...rest }: WireSchedule['job']) {
  return rest
}

/** What a server says begins with what it is about: `schedule.cron "61 …" has …`. */
const about = /^(?:schedule\.)?(?:job\.)?(name|cron|timeZone|everyMs|catchUp|kind|queue|payload)\b/

/** The field that an error is about; undefined: it is about all of it, or something else. */
export function fieldOf(message: string): Field | undefined {
  return about.exec(message)?.[1] as Field | undefined
}

/** Whether something in it stands for what the server does not show. */
export function hasHidden(payload: unknown): boolean {
  const text = JSON.stringify(payload) ?? ''
  return text.includes('"[redacted]"') || text.startsWith('{"$sealed":')
}

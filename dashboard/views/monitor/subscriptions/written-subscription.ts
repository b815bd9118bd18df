import type { Duration, MonitorClient } from '../../../../src/http/client/index.ts'
import { spanOf } from '../../../kit/text/span.ts'
import { visible } from '../../../kit/text/visible.ts'
import type { Say } from '../../../words/catalogue.ts'
import type { monitorWords } from '../../../words/monitor.ts'
import { channelOf, type WrittenChannel } from './channel-form.tsx'
import { matchOf, type WrittenMatches } from './match-text.ts'

type Options = Parameters<MonitorClient['subscribe']>[0]
type Words = Say<typeof monitorWords>

/** The fields of the subscription form, except match and channel. */
export interface WrittenSubscription {
  readonly name: string
  readonly window: string
  readonly digest: string
  readonly throttleMax: string
  readonly throttlePer: string
  readonly flapChanges: string
  readonly flapWithin: string
  readonly notifyNew: boolean
  readonly reconcile: boolean
}

export const noSubscription: WrittenSubscription = {
  ...{ name: '', window: '', digest: '', throttleMax: '', throttlePer: '', flapChanges: '', flapWithin: '' },
  ...{ notifyNew: false, reconcile: false },
}

/** Reads the form; throws a message for a missing field. The server decides the meaning of a span. */
export function subscriptionOf(
  written: WrittenSubscription,
  match: WrittenMatches,
  channel: WrittenChannel,
  say: Words,
): Options {
  const name = written.name.trim()
  if (name === '') throw new Error(say('nameNeeded'))
  const throttle = pairOf(written.throttleMax, written.throttlePer, say)
  const flap = pairOf(written.flapChanges, written.flapWithin, say)
  return {
    ...{ name, match: matchOf(match, say), channel: channelOf(channel, say) },
    ...(written.window.trim() !== '' && { windowMs: spanOf(written.window) }),
    ...(written.digest.trim() !== '' && { digestMs: spanOf(written.digest) }),
    ...(throttle && { throttle: { max: throttle.count, perMs: throttle.span } }),
    ...(flap && { flap: { changes: flap.count, withinMs: flap.span } }),
    ...(written.notifyNew && { notifyNew: true }),
    ...(written.reconcile && { reconcile: true }),
  }
}

/** Both or neither. */
function pairOf(
  count: string,
  span: string,
  say: Words,
): { readonly count: number; readonly span: Duration } | undefined {
  if (count.trim() === '' && span.trim() === '') return undefined
  if (count.trim() === '' || span.trim() === '') throw new Error(say('bothNeeded'))
  if (!/^[1-9]\d{0,6}$/.test(count.trim())) throw new Error(say('notACount', { value: visible(count) }))
  return { count: Number(count), span: spanOf(span) }
}

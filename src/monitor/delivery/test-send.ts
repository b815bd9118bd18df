import { describeError } from '../../core/describe-error.ts'
import { createId } from '../../core/ids.ts'
import type { Channel } from '../channels/channel.ts'
import { composeTest } from './compose-message.ts'
import type { Outbound } from './outbound.ts'

export interface TestSendParts {
  readonly outbound: Pick<Outbound, 'send'>
  readonly parseChannel: (config: unknown) => Channel
  /** The time that signatures are made with. @default Date.now */
  readonly now?: () => number
}

/** How a test went; `reason` says what is wrong, without secrets. */
export interface TestSendAnswer {
  readonly ok: boolean
  readonly reason: string | null
  /** The channel as it may be shown; null: it cannot be used at all. */
  readonly shown: string | null
}

/**
 * Sends one message through each robot of a channel now, past all queues and limits: for the person who sets it up and
 * looks at the group. The first robot that does not take it ends the test.
 */
export async function sendTest(
  config: unknown,
  { outbound, parseChannel, now = Date.now }: TestSendParts,
): Promise<TestSendAnswer> {
  let channel: Channel
  try {
    channel = parseChannel(config)
  } catch (error) {
    // Its complaints name fields, never values.
    return { ok: false, reason: describeError(error).message, shown: null }
  }
  const { shown, robots } = channel
  for (const [index, robot] of robots.entries()) {
    const which = robots.length === 1 ? '' : `robot ${index + 1} of ${robots.length}: `
    for (const request of channel.compose(composeTest(createId(), now()), robot, now())) {
      const verdict = channel.judge(await outbound.send(request))
      if (verdict.kind !== 'sent') return { ok: false, reason: `${which}${verdict.reason}`, shown }
    }
  }
  return { ok: true, reason: null, shown }
}

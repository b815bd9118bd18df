import { createHmac } from 'node:crypto'
import { type Decision, parseJson, type StandIn, type StandInOptions, startStandIn } from './stand-in.ts'

export interface ReceiverOptions extends StandInOptions {
  readonly secret?: string
  /** @default 300_000 */
  readonly toleranceMs?: number
}

export interface Receiver extends StandIn {
  readonly secret: string
  /** Ids that came again after they were accepted; answered with 200 and not accepted twice. */
  readonly repeats: readonly string[]
}

/** A receiver of signed webhooks: it accepts each id once, and refuses unsigned, altered or old messages. */
export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const { secret = 'receiver-secret-0123456789', toleranceMs = 300_000 } = options
  const seen = new Set<string>()
  const repeats: string[] = []

  const standIn = await startStandIn('/hooks/monitor', options, ({ method, headers, raw, at }) => {
    if (method !== 'POST') return refused(405, 'method')
    const id = String(headers['webhook-id'])
    const timestamp = String(headers['webhook-timestamp'])
    const expected = createHmac('sha256', secret).update(`${id}.${timestamp}.${raw}`).digest('base64')
    if (headers['webhook-signature'] !== `v1,${expected}`) return refused(401, 'signature')
    if (Math.abs(at - Number(timestamp) * 1_000) > toleranceMs) return refused(401, 'age')
    const body = parseJson(raw)
    if (body === undefined) return refused(400, 'not JSON')
    if (seen.has(id)) {
      repeats.push(id)
      return { ...refused(200, 'repeat'), answer: { status: 200, body: '{"repeat":true}' } }
    }
    seen.add(id)
    const { title = '' } = (body.data ?? {}) as { title?: string }
    return { taken: true, text: title, body, answer: { status: 200, body: '{}' } }
  })
  // The stand-in has getters, which a copy would freeze at their first value.
  return Object.defineProperties(standIn, {
    secret: { value: secret, enumerable: true },
    repeats: { value: repeats, enumerable: true },
  }) as Receiver
}

function refused(status: number, why: string): Decision {
  return { taken: false, code: status, why, answer: { status, body: JSON.stringify({ error: why }) } }
}

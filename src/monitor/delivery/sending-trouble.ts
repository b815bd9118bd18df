import type { NotificationRecord, SendingEnd } from '../monitor-store.ts'
import { type ShownPlace, showPlace } from '../subject-forms.ts'
import type { Addressee } from './address-book.ts'

/** A notification that a sender did not deliver, for logs. It holds no secret. */
export interface SendingTrouble extends ShownPlace {
  /** `dead`: it was given up. `sealed`: it waits, because its channel is sealed with a key that is not here. */
  readonly kind: 'dead' | 'sealed'
  readonly notificationId: string
  readonly subscriptionId: string
  /** The subscription's name. */
  readonly subscription: string
  /** The type of channel. */
  readonly channel: string
  readonly reason: string
}

/** What an end means for an operator; undefined: nothing to say. */
export function troubleOf(
  { outcome, error }: SendingEnd,
  notification: NotificationRecord,
  { name, stored }: Addressee,
): SendingTrouble | undefined {
  const kind =
    outcome === 'dead' ? 'dead' : outcome === 'retry' && isWaitingForKey(stored) ? 'sealed' : undefined
  if (kind === undefined) return undefined
  const { id, subscriptionId } = notification
  return {
    ...{ kind, notificationId: id, subscriptionId, subscription: name, channel: stored.type },
    ...showPlace(notification),
    reason: messageOf(error),
  }
}

/** Its channel may open once this process has the key. */
export function isWaitingForKey({ problem }: Addressee['stored']): boolean {
  return problem?.code === 'secret_sealed'
}

function messageOf(error: string | null): string {
  if (error === null) return 'no reason was given'
  return (JSON.parse(error) as { readonly message: string }).message
}

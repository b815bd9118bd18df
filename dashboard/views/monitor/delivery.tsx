import type { ReactNode } from 'react'
import type { MonitorClient } from '../../../src/http/client/index.ts'
import { Icon, type IconName } from '../../kit/icon.tsx'
import { Badge, type Tone } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'

export type Notification = Awaited<ReturnType<MonitorClient['notifications']>>['items'][number]
export type Status = Notification['status']

const looks: Readonly<Record<Status, readonly [Tone, IconName]>> = {
  pending: ['info', 'waiting'],
  sending: ['busy', 'running'],
  sent: ['good', 'completed'],
  dead: ['bad', 'dead'],
  held: ['warn', 'paused'],
  cancelled: ['calm', 'cancelled'],
}
const words = {
  pending: 'statusPending',
  sending: 'statusSending',
  sent: 'statusSent',
  dead: 'statusDead',
  held: 'statusHeld',
  cancelled: 'statusCancelled',
} as const satisfies Record<Status, keyof typeof monitorWords>

export const statuses = Object.keys(words) as readonly Status[]

export function wordOf(status: Status): (typeof words)[Status] {
  return words[status]
}

/** How far a notification is. */
export function StatusBadge({ status }: { readonly status: Status }): ReactNode {
  const say = useWords(monitorWords)
  const [tone, icon] = looks[status]
  return (
    <Badge tone={tone} icon={icon}>
      {say(words[status])}
    </Badge>
  )
}

/** What else there is to know of it: when it is due, what went wrong, whether it came alone. Nothing, mostly. */
export function DeliveryNote({ notification }: { readonly notification: Notification }): ReactNode {
  const say = useWords(monitorWords)
  const { status, dueAt, error, possibleRepeat, digestId } = notification
  const isAhead = status === 'pending' || status === 'sending'
  if (!isAhead && error === null && !possibleRepeat && digestId === null) return null
  return (
    <span className="monitor-note">
      {isAhead && (
        <span className="aside">
          {say('due')} <Time at={dueAt} />
        </span>
      )}
      {error !== null && (
        <span className="monitor-error">
          <Icon name="warning" />
          <Text value={error.code === undefined ? error.message : `${error.code}: ${error.message}`} cut />
        </span>
      )}
      {possibleRepeat && <span className="aside">{say('mayRepeat')}</span>}
      {digestId !== null && <span className="aside">{say('inDigest')}</span>}
    </span>
  )
}

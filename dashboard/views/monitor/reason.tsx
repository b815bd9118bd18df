import type { ReactNode } from 'react'
import type { MonitorClient } from '../../../src/http/client/index.ts'
import type { IconName } from '../../kit/icon.tsx'
import { Badge, type Tone } from '../../kit/state.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'

export type Decision = Awaited<ReturnType<MonitorClient['decisions']>>['items'][number]
export type Reason = Decision['reason']
export type Verdict = Decision['verdicts'][number]

const looks: Readonly<Record<Reason, readonly [Tone, IconName]>> = {
  changed: ['good', 'completed'],
  new: ['info', 'info'],
  unchanged: ['calm', 'ready'],
  stale: ['calm', 'scheduled'],
  pending: ['busy', 'waiting'],
  notified_recently: ['warn', 'paused'],
  flapping: ['warn', 'warning'],
  throttled: ['warn', 'contention'],
  silenced: ['calm', 'cancelled'],
  no_subscriber: ['calm', 'person'],
  duplicate_event: ['calm', 'copy'],
}

/** In the order in which they are looked for. */
export const allReasons = Object.keys(looks) as readonly Reason[]

/** Why it was decided so, in a word; the sentence is in its title. */
export function ReasonBadge({ reason }: { readonly reason: Reason }): ReactNode {
  const say = useWords(monitorWords)
  const [tone, icon] = looks[reason]
  return (
    <Badge tone={tone} icon={icon} title={say(`${reason}Why`)}>
      {say(reason)}
    </Badge>
  )
}

/** What became of it for one subscription. */
export function VerdictBadge({
  verdict: { notified, reason, kind },
}: {
  readonly verdict: Verdict
}): ReactNode {
  const say = useWords(monitorWords)
  if (!notified) return <ReasonBadge reason={reason} />
  const word =
    kind === 'flapping' ? 'notifiedFlapping' : kind === 'reconcile' ? 'notifiedReconcile' : 'notified'
  return (
    <Badge tone="good" icon="completed">
      {say(word)}
    </Badge>
  )
}

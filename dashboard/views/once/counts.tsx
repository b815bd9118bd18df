import type { ReactNode } from 'react'
import { useLive } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { onceWords } from '../../words/once.ts'

const names = [
  'unique_events',
  'duplicate_events',
  'lock_acquired_count',
  'lock_rejected_count',
  'notification_dedup',
  'degraded',
] as const

/** What the server counted of guards since it started. */
export function Counts(): ReactNode {
  const say = useWords(onceWords)
  const format = useFormat()
  const client = useClient()
  const { data: stats } = useLive(['once', 'stats'], () => client.once.stats())
  return (
    <section className="once-counts" aria-label={say('counts')}>
      <p className="aside">{say('counts')}</p>
      <dl>
        {names.map((name) => (
          <div key={name} title={say(`${name}Means`)}>
            <dt>{say(name)}</dt>
            <dd>{stats === undefined ? '–' : format.compact(stats[name])}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

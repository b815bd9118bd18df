import type { ReactNode } from 'react'
import { Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { useLive } from '../../live/queries.ts'
import { useFilter } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { onceWords } from '../../words/once.ts'
import { countByStatus, type Filters, guardStatuses, questionOf } from './guard-filters.ts'
import { looks } from './guards.tsx'

/** How many keys there are in which state: of the very list that follows, whichever process claimed them. */
export function StatusCounts({ filters }: { readonly filters: Filters }): ReactNode {
  const say = useWords(onceWords)
  const format = useFormat()
  const client = useClient()
  const [status, setStatus] = useFilter('status')
  const question = questionOf({ ...filters, status: 'running', cursor: undefined })
  const { data: page } = useLive(['once', question], () => client.once.list(question), { everyMs: 2_000 })
  const counts = page && countByStatus(page.items)
  return (
    <section className="once-counts" aria-label={say('byStatus')}>
      <ul>
        {guardStatuses.map((one) => (
          <li key={one}>
            <button
              type="button"
              aria-pressed={status === one}
              title={say(`${one}Means`)}
              onClick={() => setStatus(status === one ? '' : one)}
            >
              <b>{counts === undefined ? '–' : format.compact(counts[one])}</b>
              <Badge {...looks[one]}>{say(one)}</Badge>
            </button>
          </li>
        ))}
      </ul>
      {page !== undefined && page.cursor !== null && (
        <p className="aside">{say('ofFirst', { count: page.items.length })}</p>
      )}
    </section>
  )
}

const names = [
  'unique_events',
  'duplicate_events',
  'lock_acquired_count',
  'lock_rejected_count',
  'notification_dedup',
  'degraded',
] as const

/** What this server counted of guards since it started: claims that other processes made are not in it. */
export function ServerCounts(): ReactNode {
  const say = useWords(onceWords)
  const format = useFormat()
  const client = useClient()
  const { data: stats } = useLive(['once', 'stats'], () => client.once.stats())
  return (
    <Section title={say('counts')}>
      <p className="aside">{say('countsMean')}</p>
      <dl className="once-server" aria-label={say('counts')}>
        {names.map((name) => (
          <div key={name} title={say(`${name}Means`)}>
            <dt>{say(name)}</dt>
            <dd>{stats === undefined ? '–' : format.compact(stats[name])}</dd>
          </div>
        ))}
      </dl>
    </Section>
  )
}

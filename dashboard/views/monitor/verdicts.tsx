import type { ReactNode } from 'react'
import { Text } from '../../kit/text/text.tsx'
import { Link } from '../../shell/router.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { placeQuery } from './place.tsx'
import { type Decision, VerdictBadge } from './reason.tsx'
import { useNameOf } from './subscriptions/subscriber-names.ts'

const most = 4

/** What was decided for each subscription; the story of the venue has all of them. */
export function Verdicts({ decision }: { readonly decision: Decision }): ReactNode {
  const say = useWords(monitorWords)
  const nameOf = useNameOf()
  const { verdicts } = decision
  if (verdicts.length === 0) return <span className="aside">{say('nobody')}</span>
  return (
    <ul className="monitor-verdicts">
      {verdicts.slice(0, most).map((verdict) => (
        <li key={verdict.subscriptionId}>
          <VerdictBadge verdict={verdict} />
          <SubscriberName name={nameOf(verdict.subscriptionId)} />
        </li>
      ))}
      {verdicts.length > most && (
        <li>
          <Link to="monitor" query={placeQuery(decision)}>
            {say('andMore', { count: verdicts.length - most })}
          </Link>
        </li>
      )}
    </ul>
  )
}

/** A subscription by its name, or the word for one that has ended. */
export function SubscriberName({ name }: { readonly name: string | null | undefined }): ReactNode {
  const say = useWords(monitorWords)
  if (name === null || name === undefined) return <span className="aside">{say('ended')}</span>
  return <Text value={name} cut />
}

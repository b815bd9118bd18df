import type { ReactNode } from 'react'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { Change } from './change.tsx'
import { DeliveryNote, StatusBadge } from './delivery.tsx'
import type { Explanation } from './explain.tsx'
import { ReasonBadge, VerdictBadge } from './reason.tsx'
import { useNameOf } from './subscriptions/subscriber-names.ts'
import { SubscriberName } from './verdicts.tsx'

type Explained = Explanation['decisions'][number]

/** The decisions about a venue as a line of time, newest first: notified or not, to whom, and why. */
export function Story({ decisions }: { readonly decisions: readonly Explained[] }): ReactNode {
  return (
    <ol className="card monitor-story">
      {decisions.map((decision) => (
        <Chapter key={decision.id} decision={decision} />
      ))}
    </ol>
  )
}

function Chapter({ decision }: { readonly decision: Explained }): ReactNode {
  const say = useWords(monitorWords)
  const nameOf = useNameOf()
  const { decidedAt, reason, from, to, taskId, verdicts } = decision
  const isNotified = verdicts.some(({ notified }) => notified)
  return (
    <li className={isNotified ? 'monitor-chapter notified' : 'monitor-chapter'}>
      <p className="monitor-head">
        <ReasonBadge reason={reason} />
        <Change from={from} to={to} />
        <span className="aside">
          <Time at={decidedAt} /> · {say('byTask', { task: visible(taskId) })}
        </span>
      </p>
      <p className="aside">{say(`${reason}Why`)}</p>
      {verdicts.length > 0 && (
        <ul className="monitor-verdicts">
          {verdicts.map((verdict) => (
            <li key={verdict.subscriptionId}>
              <VerdictBadge verdict={verdict} />
              <SubscriberName name={verdict.notification?.subscription ?? nameOf(verdict.subscriptionId)} />
              {verdict.notification !== null && (
                <>
                  <StatusBadge status={verdict.notification.status} />
                  <DeliveryNote notification={verdict.notification} />
                </>
              )}
              {!verdict.notified && verdict.reason !== reason && (
                <span className="aside">{say(`${verdict.reason}Why`)}</span>
              )}
            </li>
          ))}
        </ul>
      )}
    </li>
  )
}

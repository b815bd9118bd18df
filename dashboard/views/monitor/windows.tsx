import type { ReactNode } from 'react'
import { Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time, useNow } from '../../kit/text/time.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import type { Explanation } from './explain.tsx'
import { stateText } from './state-text.ts'
import { SubscriberName } from './verdicts.tsx'

type Window = Explanation['windows'][number]

/** Who was notified what lately, or is about to be, and until when that is not notified again. */
export function Windows({ windows }: Pick<Explanation, 'windows'>): ReactNode {
  const say = useWords(monitorWords)
  return (
    <Section title={say('windows')}>
      <Table
        label={say('windows')}
        keys={false}
        rows={windows}
        rowKey={({ notificationId, subscriptionId, isPresentState }) =>
          `${subscriptionId} ${notificationId} ${isPresentState}`
        }
        columns={[
          {
            ...{ key: 'subscription', head: say('subscription'), grow: true },
            cell: ({ subscription }) => <SubscriberName name={subscription} />,
          },
          {
            ...{ key: 'about', head: say('about') },
            cell: (window) => <WindowSubject window={window} />,
          },
          { key: 'status', head: say('status'), cell: (window) => <WindowState window={window} /> },
          {
            ...{ key: 'notified', head: say('notifiedAt'), align: 'end', wideOnly: true },
            cell: ({ notifiedAt }) =>
              notifiedAt === null ? <span className="aside">–</span> : <Time at={notifiedAt} />,
          },
          {
            ...{ key: 'ends', head: say('windowEnds'), align: 'end', wideOnly: true },
            cell: ({ endsAt }) => (endsAt === null ? <span className="aside">–</span> : <Time at={endsAt} />),
          },
        ]}
        empty={<p className="aside">{say('noWindows')}</p>}
      />
    </Section>
  )
}

/** The state that the window is about, and whether that is the present one. */
function WindowSubject({ window }: { readonly window: Window }): ReactNode {
  const say = useWords(monitorWords)
  return (
    <span className="lines">
      {'state' in window && <Text value={stateText(window.state)} mono cut />}
      <span className="aside">{say(window.isPresentState ? 'presentState' : 'earlierState')}</span>
    </span>
  )
}

function WindowState({ window: { status, endsAt } }: { readonly window: Window }): ReactNode {
  const say = useWords(monitorWords)
  const now = useNow()
  if (status === 'pending')
    return (
      <Badge tone="busy" icon="waiting">
        {say('windowPending')}
      </Badge>
    )
  if (status === 'owed')
    return (
      <Badge tone="bad" icon="warning">
        {say('windowOwed')}
      </Badge>
    )
  if (endsAt !== null && endsAt > now)
    return (
      <Badge tone="warn" icon="paused">
        {say('windowNotified')}
      </Badge>
    )
  return (
    <Badge tone="calm" icon="ready">
      {say('windowOver')}
    </Badge>
  )
}

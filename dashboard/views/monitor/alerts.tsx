import { Fragment, type ReactNode } from 'react'
import { type Client, listAlerts } from '../../../src/http/client/index.ts'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Code } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { alertsWords } from '../../words/alerts.ts'
import { useWords } from '../../words/language.tsx'

const rules = [
  ...(['dead-jobs', 'queue-behind', 'no-worker', 'schedule-missed'] as const),
  ...(['lock-waited', 'node-lost', 'channel-failing', 'store-slow'] as const),
]

const ask = (client: Client) => client.call(listAlerts)
type Answer = Awaited<ReturnType<typeof ask>>

/** A rule, what it fires for, longest first, and the names of its subscribers. */
interface Row {
  readonly rule: (typeof rules)[number]
  readonly firing: Answer['firing']
  readonly subscribers: readonly string[]
}

/** Lists the rules of alerts: what each fires for, and who is alerted. */
export function Alerts(): ReactNode {
  const say = useWords(alertsWords)
  const client = useClient()
  const columns = useColumns()
  return (
    <Loaded query={useLive(['monitor', 'alerts'], () => ask(client))}>
      {(answer) => (
        <>
          {answer.subscriptions.length === 0 && (
            <Empty icon="monitor" title={say('off')}>
              <p>{say('offNext')}</p>
              <Code text="signalbox alerts add on-call channel.json" label={say('command')} />
            </Empty>
          )}
          <Section title={say('rules')}>
            <Table
              label={say('rules')}
              rows={rules.map((rule) => rowOf(rule, answer))}
              columns={columns}
              rowKey={({ rule }) => rule}
              empty={null}
            />
          </Section>
        </>
      )}
    </Loaded>
  )
}

function rowOf(rule: Row['rule'], { firing, subscriptions }: Answer): Row {
  const subject = `${rule} `
  const takers = subscriptions.filter(({ match }) => {
    const wanted = match.subject
    return (
      wanted === undefined || (typeof wanted === 'object' && 'prefix' in wanted && wanted.prefix === subject)
    )
  })
  return {
    rule,
    firing: firing.filter((alert) => alert.subject.startsWith(subject)),
    subscribers: takers.map(({ name }) => name),
  }
}

/** More of them would be a list of their own. */
const mostShown = 3

function useColumns(): readonly Column<Row>[] {
  const say = useWords(alertsWords)
  return [
    { key: 'rule', head: say('rule'), grow: true, wrap: true, cell: (row) => <Rule row={row} /> },
    {
      ...{ key: 'state', head: say('state'), whole: true },
      cell: ({ firing, subscribers }) => {
        if (firing.length > 0)
          return (
            <Badge tone="bad" icon="warning">
              {say('firing', { count: firing.length })}
            </Badge>
          )
        if (subscribers.length === 0) return <Badge tone="calm">{say('unwatched')}</Badge>
        return (
          <Badge tone="good" icon="completed">
            {say('quiet')}
          </Badge>
        )
      },
    },
    {
      ...{ key: 'since', head: say('since'), wideOnly: true },
      cell: ({ firing: [first] }) => (first ? <Time at={first.since} /> : <span className="aside">–</span>),
    },
    {
      ...{ key: 'who', head: say('who'), wideOnly: true },
      cell: ({ subscribers }) => <Text value={subscribers.join(', ')} cut />,
    },
  ]
}

/** A rule in words, and the first things that it fires for. */
function Rule({ row: { rule, firing } }: { readonly row: Row }): ReactNode {
  const say = useWords(alertsWords)
  return (
    <span className="lines">
      <strong className="mono">{rule}</strong>
      <span className="aside">{say(rule)}</span>
      {firing.slice(0, mostShown).map(({ subject, says }) => (
        <Fragment key={subject}>
          <Link to="monitor" query={{ source: 'signalbox', subject }}>
            <Text value={subject.slice(rule.length + 1)} cut />
          </Link>
          <span className="aside">
            <Text value={says} cut />
          </span>
        </Fragment>
      ))}
      {firing.length > mostShown && (
        <span className="aside">{say('more', { count: firing.length - mostShown })}</span>
      )}
    </span>
  )
}

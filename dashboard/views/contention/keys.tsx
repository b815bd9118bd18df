import type { ReactNode } from 'react'
import { Empty } from '../../kit/empty.tsx'
import { Icon } from '../../kit/icon.tsx'
import { Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { Link } from '../../shell/router.tsx'
import { useSignedIn } from '../../shell/session.ts'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import type { Snapshot } from './heat.ts'
import { More } from './more.tsx'

type Key = Snapshot['keys'][number]

/** Locks that had waiters, with their holders. */
export function Keys({ snapshot: { keys } }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  return (
    <Section title={say('keys')} actions={<Link to="locks">{say('allLocks')}</Link>}>
      <p className="aside contention-lead">{say('keysLead')}</p>
      <More rows={keys} first={10}>
        {(shown) => (
          <Table
            label={say('keys')}
            keys={false}
            rows={shown}
            rowKey={({ namespace, operation, resource }) => `${namespace}\n${operation}\n${resource}`}
            columns={[
              { key: 'key', head: say('key'), cell: (key) => <Name lock={key} /> },
              { key: 'line', head: say('line'), grow: true, cell: (key) => <Line lock={key} /> },
              {
                ...{ key: 'heldBy', head: say('heldBy'), wideOnly: true },
                cell: (key) => <HeldBy lock={key} />,
              },
              {
                ...{ key: 'count', head: say('waitCount'), align: 'end', wideOnly: true },
                cell: ({ waitCount }) => format.number(waitCount),
              },
              {
                ...{ key: 'longest', head: say('longest'), align: 'end', wideOnly: true },
                cell: ({ maxWaitMs }) => format.span(maxWaitMs),
              },
              {
                ...{ key: 'all', head: say('inAll'), align: 'end' },
                cell: ({ waitedMs }) => format.span(waitedMs),
              },
            ]}
            empty={
              <Empty icon="locks" title={say('noKeys')}>
                <p>{say('noKeysNext')}</p>
              </Empty>
            }
          />
        )}
      </More>
    </Section>
  )
}

function Name({ lock: { namespace, operation, resource } }: { readonly lock: Key }): ReactNode {
  const { me } = useSignedIn()
  return (
    <div className="lines">
      {namespace === me.namespace ? (
        <Link to="locks" query={{ operation, resource }}>
          <Text value={`${operation} ${resource}`} cut />
        </Link>
      ) : (
        <>
          <Text value={`${operation} ${resource}`} cut />
          <span className="aside">
            <Text value={namespace} cut />
          </span>
        </>
      )}
    </div>
  )
}

const shownWaiters = 5

/** The waiters, an arrow, and the holder they wait for. */
function Line({ lock: { holder, waiters } }: { readonly lock: Key }): ReactNode {
  const say = useWords(contentionWords)
  const moreCount = waiters.length - shownWaiters
  return (
    <span className="contention-line">
      {waiters.length === 0 && <span className="aside">{say('nobodyWaits')}</span>}
      {waiters.slice(0, shownWaiters).map(({ node, since }, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: one node may wait twice
        <span key={nth} className="contention-waiter">
          <Text value={node} cut />
          <span className="aside">
            <Time at={since} />
          </span>
        </span>
      ))}
      {moreCount > 0 && <span className="aside">{say('more', { count: moreCount })}</span>}
      {waiters.length > 0 && <Icon name="next" />}
      {holder === null ? (
        <Badge tone="calm" icon="ready">
          {say('free')}
        </Badge>
      ) : (
        <Badge tone="busy" icon="locks">
          <Text value={holder} cut />
        </Badge>
      )}
    </span>
  )
}

const shownHolders = 3

function HeldBy({ lock: { heldBy } }: { readonly lock: Key }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  const moreCount = heldBy.length - shownHolders
  if (heldBy.length === 0) return <span className="aside">–</span>
  return (
    <ul className="lines contention-heldby">
      {heldBy.slice(0, shownHolders).map(({ node, ms }) => (
        <li key={node ?? ''}>
          {node === null ? <span className="aside">{say('unknown')}</span> : <Text value={node} cut />}
          <span className="aside">{format.span(ms)}</span>
        </li>
      ))}
      {moreCount > 0 && <li className="aside">{say('more', { count: moreCount })}</li>}
    </ul>
  )
}

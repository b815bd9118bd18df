import type { ReactNode } from 'react'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page } from '../../kit/page.tsx'
import { Text } from '../../kit/text/text.tsx'
import { useLive } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import './contention.css'
import type { Snapshot } from './heat.ts'
import { HeatTable } from './heat-table.tsx'
import { Holders } from './holders.tsx'
import { Keys } from './keys.tsx'
import { Kinds } from './kinds.tsx'
import { Lanes } from './lanes.tsx'
import { Slowest } from './slowest.tsx'

/** Which calls wait, how long and for which holder, in the server that answers. */
export default function ContentionView(): ReactNode {
  const say = useWords(contentionWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const snapshot = useLive(['contention'], () => client.contention.snapshot(), { everyMs: 5_000 })
  return (
    <Page title={sayShell('contention')} lead={say('lead')}>
      <Loaded query={snapshot}>{(found) => <Whole snapshot={found} />}</Loaded>
    </Page>
  )
}

function Whole({ snapshot }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const { matrix, overflow } = snapshot
  const isOver = Object.values(overflow).some((count) => count > 0)
  return (
    <>
      <Summary snapshot={snapshot} />
      {matrix.length === 0 ? (
        <Empty icon="contention" title={say('quiet')}>
          <p>{say('quietNext')}</p>
        </Empty>
      ) : (
        <>
          <Holders snapshot={snapshot} />
          <HeatTable snapshot={snapshot} />
        </>
      )}
      <Keys snapshot={snapshot} />
      <Slowest snapshot={snapshot} />
      <Kinds snapshot={snapshot} />
      <Lanes snapshot={snapshot} />
      {isOver && <p className="aside contention-over">{say('overflow', overflow)}</p>}
    </>
  )
}

function Summary({ snapshot }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  const { since, at, holders, lanes, keys } = snapshot
  const waiting = [...lanes.map((lane) => lane.waiting), ...keys.map(({ waiters }) => waiters.length)]
  const [worst] = holders
  return (
    <div className="card contention-summary" title={say('since', { time: format.instant(since) })}>
      <Facts
        items={[
          [say('sinceStart'), format.span(Math.max(0, at - since))],
          [say('waitedInAll'), format.span(sum(holders.map(({ ms }) => ms)))],
          [say('worstHolder'), worst === undefined ? '–' : <Text key="worst" value={worst.holder} />],
          [say('waitingNow'), format.number(sum(waiting))],
        ]}
      />
    </div>
  )
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0)
}

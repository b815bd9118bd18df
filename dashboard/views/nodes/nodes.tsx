import type { ReactNode } from 'react'
import type { WireNode } from '../../../src/http/client/index.ts'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input } from '../../kit/field.tsx'
import { Growing } from '../../kit/growing.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { go, Link, useFilter, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import { shellWords } from '../../words/shell.ts'
import { OneNode } from './node.tsx'
import './nodes.css'
import { Labels, Load, ServiceSlots, Standing, Via } from './parts.tsx'
import { Pools } from './pools.tsx'
import { NodeSnippet } from './snippet.tsx'
import { worstNodesFirst } from './worst-first.ts'

/** The server lists nodes by name; here the worst are first, so this many are asked for at once. */
const askedNodes = 500
const shownNodes = 50

/** Nodes and pools; `?id=` opens one node. */
export default function NodesView(): ReactNode {
  const { id } = usePlace().query
  return id ? <OneNode id={id} /> : <AllNodes />
}

function AllNodes(): ReactNode {
  const say = useWords(nodesWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const { query } = usePlace()
  const [service, setService] = useFilter('service')
  const asked = {
    limit: askedNodes,
    ...(service ? { service } : {}),
    ...(query.cursor ? { cursor: query.cursor } : {}),
  }
  const nodes = useLive(['nodes', asked], () => client.dispatch.nodes(asked), {
    everyMs: (data) => ((data?.items.length ?? 0) > shownNodes ? 5_000 : 2_000),
  })
  const columns = useColumns()
  return (
    <Page title={sayShell('nodes')} lead={say('lead')}>
      <div className="toolbar">
        <Input
          bare
          type="search"
          label={say('service')}
          placeholder={say('anyService')}
          value={service}
          onChange={(value) => setService(value.trim())}
        />
        <Input
          bare
          type="search"
          label={say('nodeId')}
          placeholder={say('openById')}
          value=""
          onChange={(value) => value.trim() && go('nodes', { id: value.trim() })}
        />
      </div>
      <Loaded query={nodes}>
        {({ items, cursor }) => (
          <>
            <Growing items={worstNodesFirst(items)} step={shownNodes}>
              {(rows) => (
                <Table
                  label={sayShell('nodes')}
                  rows={rows}
                  columns={columns}
                  rowKey={({ nodeId }) => nodeId}
                  onOpen={({ nodeId }) => go('nodes', { id: nodeId })}
                  stale={nodes.isPlaceholderData}
                  empty={service ? <NoneOffer service={service} /> : <NoNodes />}
                />
              )}
            </Growing>
            {items.length > 0 && <Pager next={cursor}>{say('shown', { count: items.length })}</Pager>}
          </>
        )}
      </Loaded>
      <Pools />
    </Page>
  )
}

function NoNodes(): ReactNode {
  const say = useWords(nodesWords)
  return (
    <Empty icon="nodes" title={say('none')}>
      <p>{say('noneNext')}</p>
      <NodeSnippet />
    </Empty>
  )
}

function NoneOffer({ service }: { readonly service: string }): ReactNode {
  const say = useWords(nodesWords)
  return (
    <Empty icon="nodes" title={say('noneOffer', { service: visible(service) })}>
      <p>{say('noneOfferNext')}</p>
      <Button onPress={() => go('nodes')}>{say('clear')}</Button>
    </Empty>
  )
}

function useColumns(): readonly Column<WireNode>[] {
  const say = useWords(nodesWords)
  const format = useFormat()
  return [
    {
      ...{ key: 'node', head: say('node') },
      cell: (node) => (
        <div className="lines nodes-name">
          <Link to="nodes" query={{ id: node.nodeId }}>
            <Text value={node.nodeId} cut />
          </Link>
          <Standing node={node} />
        </div>
      ),
    },
    {
      ...{ key: 'services', head: say('services'), whole: true },
      cell: (node) => <ServiceSlots node={node} />,
    },
    {
      ...{ key: 'load', head: say('load'), wideOnly: true, whole: true },
      cell: (node) => <Load node={node} />,
    },
    {
      ...{ key: 'labels', head: say('labels'), grow: true, wideOnly: true },
      cell: (node) => <Labels node={node} />,
    },
    {
      ...{ key: 'tasks', head: say('tasks'), align: 'end', roomyOnly: true },
      cell: ({ taskIds, via }) =>
        via !== null ? <span className="aside">–</span> : format.number(taskIds.length),
    },
    { key: 'seen', head: say('seen'), wideOnly: true, cell: ({ seenAt }) => <Time at={seenAt} /> },
    { key: 'via', head: say('via'), roomyOnly: true, cell: (node) => <Via node={node} /> },
  ]
}

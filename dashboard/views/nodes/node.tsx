import { type ReactNode, useState } from 'react'
import type { WireNode } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { Table } from '../../kit/table.tsx'
import { Copy } from '../../kit/text/copy.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time, useNow } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import { Cordoning, Draining } from './acts.tsx'
import { isClosed, Labels, Load, ServiceState, Standing, Via } from './parts.tsx'
import { Slots } from './slots.tsx'

/** One node with everything that is known of it, and what can be done with it. */
export function OneNode({ id }: { readonly id: string }): ReactNode {
  const say = useWords(nodesWords)
  const client = useClient()
  const nodes = useLive(['nodes', 'one', id], () => client.dispatch.nodes({ nodeId: id }), { everyMs: 2_000 })
  // After a change of address, cached data may belong to another node.
  const node = nodes.data?.items.find(({ nodeId }) => nodeId === id)
  return (
    <Page
      title={visible(id)}
      lead={<Link to="nodes">{say('allNodes')}</Link>}
      actions={node && <NodeActs node={node} />}
    >
      <Loaded query={nodes}>
        {() =>
          node === undefined ? (
            <Empty icon="nodes" title={say('missing')}>
              <p>{say('missingNext')}</p>
            </Empty>
          ) : (
            <Whole node={node} />
          )
        }
      </Loaded>
    </Page>
  )
}

function NodeActs({ node }: { readonly node: WireNode }): ReactNode {
  const say = useWords(nodesWords)
  const [asked, ask] = useState<'drain' | 'cordon'>()
  const isGone = node.status === 'gone'
  const close = () => ask(undefined)
  return (
    <>
      <Action scope="admin" onPress={() => ask('cordon')}>
        {say(node.cordoned ? 'uncordon' : 'cordon')}
      </Action>
      <Action scope="admin" disabled={isGone} reason={say('isGone')} onPress={() => ask('drain')}>
        {say(node.draining ? 'undrain' : 'drain')}
      </Action>
      {asked === 'drain' && <Draining node={node} onClose={close} />}
      {asked === 'cordon' && <Cordoning node={node} onClose={close} />}
    </>
  )
}

function Whole({ node }: { readonly node: WireNode }): ReactNode {
  const say = useWords(nodesWords)
  const { nodeId, instanceId, epoch, seenAt, joinedAt, heldFor } = node
  return (
    <>
      <div className="card">
        <Facts
          items={[
            [say('status'), <Standing key="status" node={node} />],
            [say('seen'), <Time key="seen" at={seenAt} />],
            [say('joined'), <Time key="joined" at={joinedAt} />],
            [say('via'), <Via key="via" node={node} />],
            heldFor === null
              ? undefined
              : [
                  say('heldFor'),
                  <Link key="held" to="tasks" query={{ id: heldFor }} className="mono">
                    <Text value={heldFor} />
                  </Link>,
                ],
            [say('load'), <Load key="load" node={node} />],
            [say('labels'), <Labels key="labels" node={node} most={64} />],
            [
              say('instance'),
              <span key="instance" className="mono">
                <Text value={instanceId} /> <Copy text={instanceId} />
              </span>,
            ],
            [
              say('epoch'),
              <span key="epoch" className="mono">
                {String(epoch)}
              </span>,
            ],
          ]}
        />
      </div>
      <Services node={node} />
      <Runs key={nodeId} node={node} />
    </>
  )
}

function Services({ node }: { readonly node: WireNode }): ReactNode {
  const say = useWords(nodesWords)
  const now = useNow()
  const [asked, ask] = useState<string>()
  const service = node.services.find(({ name }) => name === asked)
  return (
    <Section title={say('services')}>
      <Table
        label={say('services')}
        rows={node.services}
        rowKey={({ name }) => name}
        columns={[
          {
            ...{ key: 'name', head: say('service') },
            cell: (one) => (
              <span className="lines">
                <Text value={one.name} cut />
                <span className="narrow-only">
                  <ServiceState node={node} service={one} now={now} />
                </span>
              </span>
            ),
          },
          {
            ...{ key: 'slots', head: say('slots'), whole: true },
            cell: (one) => (
              <span className="nodes-taken">
                <Slots name={one.name} used={one.used} slots={one.slots} closed={isClosed(node, one, now)} />
                <span aria-hidden="true">
                  {one.used}/{one.slots}
                </span>
              </span>
            ),
          },
          {
            ...{ key: 'state', head: say('status'), wideOnly: true, whole: true },
            cell: (one) => (
              <>
                <ServiceState node={node} service={one} now={now} />{' '}
                {(one.restsUntil ?? 0) > now && (
                  <span className="aside" title={say('restsUntil')}>
                    <Time at={one.restsUntil} />
                  </span>
                )}
              </>
            ),
          },
          {
            ...{ key: 'tags', head: say('tags'), grow: true, wideOnly: true },
            cell: ({ tags }) => <Tags tags={tags} />,
          },
          {
            ...{ key: 'acts', head: say('acts'), align: 'end', whole: true },
            cell: ({ name, cordoned }) => (
              <Action
                scope="admin"
                label={say(cordoned ? 'uncordonService' : 'cordonService', { service: visible(name) })}
                onPress={() => ask(name)}
              >
                {say(cordoned ? 'uncordon' : 'cordon')}
              </Action>
            ),
          },
        ]}
        empty={
          <Empty icon="nodes" title={say('noServices')}>
            <p>{say('noServicesNext', { code: 'node.update({ services })' })}</p>
          </Empty>
        }
      />
      {service && <Cordoning node={node} service={service} onClose={() => ask(undefined)} />}
    </Section>
  )
}

function Tags({ tags }: { readonly tags: WireNode['services'][number]['tags'] }): ReactNode {
  const text = Object.entries(tags).map(([tag, values]) => `${tag}: ${values.join(', ')}`)
  return text.length === 0 ? <span className="aside">–</span> : <Text value={text.join('; ')} cut />
}

const shownTasks = 60

function Runs({ node }: { readonly node: WireNode }): ReactNode {
  const say = useWords(nodesWords)
  const format = useFormat()
  const { taskIds, via } = node
  const moreCount = taskIds.length - shownTasks
  return (
    <Section title={`${say('runs')}${via === null ? ` (${format.number(taskIds.length)})` : ''}`}>
      {via !== null && <p className="aside">{say('runsElsewhere')}</p>}
      {via === null && taskIds.length === 0 && <p className="aside">{say('runsNone')}</p>}
      <ul className="nodes-runs">
        {taskIds.slice(0, shownTasks).map((taskId) => (
          <li key={taskId}>
            <Link to="tasks" query={{ id: taskId }} className="mono">
              <Text value={taskId} />
            </Link>
          </li>
        ))}
      </ul>
      {moreCount > 0 && <p className="aside">{say('runsMore', { count: moreCount })}</p>}
    </Section>
  )
}

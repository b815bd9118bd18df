import { type ReactNode, useState } from 'react'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Section } from '../../kit/page.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { useLive } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import { PoolForm } from './pool-form.tsx'
import { describeTerm, type Pool } from './rule.ts'
import { signatureParts } from './signature.ts'
import { poolTold } from './until-published.ts'

/** Pools by rule, which operators define, and the kinds of nodes, which make themselves. */
export function Pools(): ReactNode {
  const say = useWords(nodesWords)
  const client = useClient()
  const pools = useLive(['nodes', 'pools'], () => client.dispatch.pools(), { everyMs: 3_000 })
  const [asked, ask] = useState<{ readonly act: 'define' | 'remove'; readonly pool?: Pool }>()
  const close = () => ask(undefined)
  return (
    <>
      <Section
        title={say('pools')}
        actions={
          <Action scope="admin" onPress={() => ask({ act: 'define' })}>
            {say('define')}
          </Action>
        }
      >
        <p className="aside nodes-lead">{say('poolsLead', { code: `{ label: 'pool', in: ['…'] }` })}</p>
        <Loaded query={pools}>
          {({ items }) => <Defined pools={items.filter(({ name }) => name !== null)} onAsk={ask} />}
        </Loaded>
      </Section>
      {pools.data && <Kinds pools={pools.data.items.filter(({ name }) => name === null)} />}
      {asked?.act === 'define' && <PoolForm pool={asked.pool} onClose={close} />}
      {asked?.act === 'remove' && <Removing pool={asked.pool!} onClose={close} />}
    </>
  )
}

interface DefinedProps {
  readonly pools: readonly Pool[]
  readonly onAsk: (asked: { readonly act: 'define' | 'remove'; readonly pool: Pool }) => void
}

function Defined({ pools, onAsk }: DefinedProps): ReactNode {
  const say = useWords(nodesWords)
  const format = useFormat()
  return (
    <Table
      label={say('pools')}
      keys={false}
      rows={pools}
      rowKey={({ name }) => name!}
      columns={[
        { key: 'pool', head: say('pool'), cell: ({ name }) => <Text value={name!} /> },
        { key: 'rule', head: say('rule'), grow: true, cell: ({ requires }) => <Rule terms={requires} /> },
        {
          ...{ key: 'nodes', head: say('nodes'), align: 'end' },
          cell: ({ nodeCount }) => format.number(nodeCount),
        },
        {
          ...{ key: 'acts', head: say('acts'), align: 'end', whole: true },
          cell: (pool) => (
            <span className="nodes-acts">
              <Action
                scope="admin"
                look="quiet"
                label={say('change', { pool: visible(pool.name!) })}
                onPress={() => onAsk({ act: 'define', pool })}
              >
                {say('changeIt')}
              </Action>
              <Action
                scope="admin"
                look="danger"
                label={say('remove', { pool: visible(pool.name!) })}
                onPress={() => onAsk({ act: 'remove', pool })}
              >
                {say('removeIt')}
              </Action>
            </span>
          ),
        },
      ]}
      empty={
        <Empty icon="nodes" title={say('noPools')}>
          <p>{say('noPoolsNext')}</p>
        </Empty>
      }
    />
  )
}

function Rule({ terms }: { readonly terms: Pool['requires'] }): ReactNode {
  const say = useWords(nodesWords)
  if (terms.length === 0) return <span className="aside">{say('everyNode')}</span>
  return (
    <span className="nodes-labels">
      {terms.map((term) => (
        <span key={JSON.stringify(term)} className="nodes-label">
          <Text value={describeTerm(term, say)} />
        </span>
      ))}
    </span>
  )
}

function Signature({ text }: { readonly text: string }): ReactNode {
  const parts = signatureParts(text)
  if (parts === undefined) return <Text value={text} mono cut />
  return (
    <span className="nodes-labels">
      {parts.services.map(([name, tags]) => (
        <span key={name} className="nodes-label is-service">
          <Text value={name} /> {tags !== '' && <Text value={tags} />}
        </span>
      ))}
      {parts.labels.map(([name, value]) => (
        <span key={name} className="nodes-label">
          <Text value={name} /> <Text value={value} />
        </span>
      ))}
    </span>
  )
}

/** Of thousands, the first are enough to see how they differ. */
const shownKinds = 50

function Kinds({ pools }: { readonly pools: readonly Pool[] }): ReactNode {
  const say = useWords(nodesWords)
  const format = useFormat()
  if (pools.length === 0) return null
  const moreCount = pools.length - shownKinds
  return (
    <Section title={say('kinds')}>
      <p className="aside nodes-lead">{say('kindsLead')}</p>
      <Table
        label={say('kinds')}
        keys={false}
        rows={pools.slice(0, shownKinds)}
        rowKey={({ signature }) => signature ?? ''}
        columns={[
          {
            ...{ key: 'signature', head: say('signature'), grow: true },
            cell: ({ signature }) => <Signature text={signature ?? ''} />,
          },
          {
            ...{ key: 'nodes', head: say('nodes'), align: 'end' },
            cell: ({ nodeCount }) => format.number(nodeCount),
          },
        ]}
        empty={null}
      />
      {moreCount > 0 && <p className="aside">{say('runsMore', { count: moreCount })}</p>}
    </Section>
  )
}

function Removing({ pool, onClose }: { readonly pool: Pool; readonly onClose: () => void }): ReactNode {
  const say = useWords(nodesWords)
  const client = useClient()
  const name = pool.name!
  const confirm = async () => {
    const wasThere = await client.dispatch.removePool(name)
    toast(say(wasThere ? 'poolRemoved' : 'poolWasGone', { pool: visible(name) }))
    await poolTold(client, name, (now) => now === undefined)
  }
  return (
    <Confirm
      danger
      title={say('removeAsk', { pool: visible(name), count: pool.nodeCount })}
      act={say('removeIt')}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say('removeMeans')}</p>
    </Confirm>
  )
}

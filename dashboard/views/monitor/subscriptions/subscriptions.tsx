import { type ReactNode, useState } from 'react'
import { Action } from '../../../kit/action.tsx'
import { Confirm } from '../../../kit/confirm.tsx'
import { Empty } from '../../../kit/empty.tsx'
import { Loaded } from '../../../kit/loaded.tsx'
import { type Column, Table } from '../../../kit/table.tsx'
import { Text } from '../../../kit/text/text.tsx'
import { visible } from '../../../kit/text/visible.ts'
import { toast } from '../../../kit/toast.tsx'
import { changed } from '../../../live/queries.ts'
import { Link } from '../../../shell/router.tsx'
import { useClient } from '../../../shell/session.ts'
import { useWords } from '../../../words/language.tsx'
import { monitorWords } from '../../../words/monitor.ts'
import { Rules } from '../rules.tsx'
import { sayMatch } from './match-text.ts'
import { Subscribing } from './subscribe-dialog.tsx'
import { type Subscription, useSubscriptions } from './subscriber-names.ts'
import { Testing } from './test-dialog.tsx'

/** Lists subscriptions with their rules, creates and ends them, and tests channels. */
export function Subscriptions(): ReactNode {
  const say = useWords(monitorWords)
  const [asked, ask] = useState<'subscribe' | 'test'>()
  const [ended, end] = useState<Subscription>()
  const columns = useColumns(end)
  const close = () => ask(undefined)
  const subscribe = (
    <Action scope="admin" look="main" onPress={() => ask('subscribe')}>
      {say('subscribe')}
    </Action>
  )
  return (
    <>
      <div className="toolbar monitor-acts">
        <Action scope="admin" onPress={() => ask('test')}>
          {say('testChannel')}
        </Action>
        {subscribe}
      </div>
      <Loaded query={useSubscriptions()}>
        {(items) => (
          <Table
            label={say('subscriptions')}
            rows={items}
            columns={columns}
            rowKey={({ id }) => id}
            empty={
              <Empty icon="monitor" title={say('noSubscriptions')}>
                <p>{say('noSubscriptionsNext')}</p>
                {subscribe}
              </Empty>
            }
          />
        )}
      </Loaded>
      {asked === 'subscribe' && <Subscribing onClose={close} />}
      {asked === 'test' && <Testing onClose={close} />}
      {ended && <Unsubscribing subscription={ended} onClose={() => end(undefined)} />}
    </>
  )
}

function useColumns(end: (subscription: Subscription) => void): readonly Column<Subscription>[] {
  const say = useWords(monitorWords)
  return [
    {
      ...{ key: 'name', head: say('name'), grow: true },
      cell: (one) => (
        <span className="lines">
          <Link to="monitor" query={{ part: 'notifications', subscription: one.id }}>
            <Text value={one.name} cut />
          </Link>
          <span className="aside">
            <Text value={sayMatch(one.match, say)} cut />
          </span>
          <span className="aside narrow-only">
            <Text value={one.channel.shown} cut />
          </span>
        </span>
      ),
    },
    {
      ...{ key: 'channel', head: say('channel'), wideOnly: true },
      cell: ({ channel }) => <Text value={channel.shown} />,
    },
    {
      ...{ key: 'rules', head: say('rules'), wideOnly: true, whole: true },
      cell: (one) => <Rules subscription={one} />,
    },
    {
      ...{ key: 'act', head: say('act'), whole: true },
      cell: (one) => (
        <Action scope="admin" look="quiet" onPress={() => end(one)}>
          {say('unsubscribe')}
        </Action>
      ),
    },
  ]
}

interface UnsubscribingProps {
  readonly subscription: Subscription
  readonly onClose: () => void
}

function Unsubscribing({ subscription: { id, name }, onClose }: UnsubscribingProps): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const confirm = async () => {
    await client.monitor.unsubscribe(id)
    toast(say('unsubscribed'))
    await changed('monitor', 'audit')
  }
  return (
    <Confirm
      title={say('unsubscribeOne')}
      act={say('unsubscribe')}
      danger
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say('unsubscribeMeans', { name: visible(name) })}</p>
    </Confirm>
  )
}

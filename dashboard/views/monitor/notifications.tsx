import { type ReactNode, useState } from 'react'
import { Action } from '../../kit/action.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Select } from '../../kit/field.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { go, Link, useFilter, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { Change } from './change.tsx'
import { DeliveryNote, type Notification, StatusBadge, statuses, wordOf } from './delivery.tsx'
import { NothingMatches } from './empty-states.tsx'
import { PlaceFilter, placeOf, placeQuery, VenueName } from './place.tsx'
import { Replaying } from './replay-dialog.tsx'
import { useSubscriptions } from './subscriptions/subscriber-names.ts'
import { SubscriberName } from './verdicts.tsx'

/** What was sent or is to be, newest first: where, when, tried how often; dead and held ones can be replayed. */
export function Notifications(): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const { query } = usePlace()
  const [status, setStatus] = useFilter('status')
  const [subscriptionId, setSubscription] = useFilter('subscription')
  const { data: subscriptions = [] } = useSubscriptions()
  const [replayed, replay] = useState<Notification>()
  const known = statuses.find((one) => one === status)
  const asked = {
    ...placeOf(query),
    ...(known && { status: known }),
    ...(subscriptionId && { subscriptionId }),
    ...(query.cursor && { cursor: query.cursor }),
  }
  const columns = useColumns(replay)
  const notifications = useLive(['monitor', 'notifications', asked], () =>
    client.monitor.notifications({ ...asked, limit: 25 }),
  )
  return (
    <>
      <div className="toolbar">
        <Select
          bare
          label={say('status')}
          value={known ?? ''}
          options={[['', say('anyStatus')], ...statuses.map((one) => [one, say(wordOf(one))] as const)]}
          onChange={setStatus}
        />
        <Select
          bare
          label={say('subscription')}
          value={subscriptionId}
          options={[
            ['', say('anySubscription')],
            ...subscriptions.map(({ id, name }) => [id, visible(name)] as const),
            ...(subscriptionId && !subscriptions.some(({ id }) => id === subscriptionId)
              ? [[subscriptionId, say('ended')] as const]
              : []),
          ]}
          onChange={setSubscription}
        />
        <PlaceFilter part="notifications" />
      </div>
      <Loaded query={notifications}>
        {({ items, cursor }) => (
          <>
            <Table
              label={say('notifications')}
              rows={items}
              columns={columns}
              rowKey={({ id }) => id}
              onOpen={(one) => go('monitor', placeQuery(one))}
              stale={notifications.isPlaceholderData}
              empty={Object.keys(asked).length > 0 ? <NothingMatches part="notifications" /> : <NoneYet />}
            />
            <Pager next={cursor} />
          </>
        )}
      </Loaded>
      {replayed && <Replaying notification={replayed} onClose={() => replay(undefined)} />}
    </>
  )
}

function NoneYet(): ReactNode {
  const say = useWords(monitorWords)
  return (
    <Empty icon="monitor" title={say('noNotifications')}>
      <p>{say('noNotificationsNext')}</p>
      <Link to="monitor" query={{ part: 'subscriptions' }}>
        {say('toSubscriptions')}
      </Link>
    </Empty>
  )
}

function useColumns(replay: (notification: Notification) => void): readonly Column<Notification>[] {
  const say = useWords(monitorWords)
  return [
    {
      ...{ key: 'when', head: say('when'), wideOnly: true },
      cell: ({ createdAt }) => <Time at={createdAt} />,
    },
    {
      ...{ key: 'venue', head: say('venue'), grow: true },
      cell: (one) => (
        <span className="lines">
          <VenueName venue={one} />
          <Change from={one.from} to={one.to} />
          <DeliveryNote notification={one} />
        </span>
      ),
    },
    {
      ...{ key: 'to', head: say('subscription'), wideOnly: true },
      cell: ({ subscription, channel }) => (
        <span className="lines">
          <SubscriberName name={subscription} />
          {channel !== null && (
            <span className="aside">
              <Text value={channel} cut />
            </span>
          )}
        </span>
      ),
    },
    {
      ...{ key: 'attempts', head: say('attempts'), align: 'end', wideOnly: true },
      cell: ({ attempt, maxAttempts }) => say('attemptOf', { attempt, max: maxAttempts }),
    },
    {
      ...{ key: 'status', head: say('status'), whole: true },
      cell: (one) => (
        <span className="lines">
          <StatusBadge status={one.status} />
          <span className="aside narrow-only">
            <Time at={one.createdAt} />
          </span>
          {(one.status === 'dead' || one.status === 'held') && (
            <span>
              <Action scope="admin" onPress={() => replay(one)}>
                {say('replay')}
              </Action>
            </span>
          )}
        </span>
      ),
    },
  ]
}

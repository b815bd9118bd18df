import { type ReactNode, useState } from 'react'
import { Action } from '../../kit/action.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page, Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { Json } from '../../kit/text/json.tsx'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { locksWords } from '../../words/locks.ts'
import { Drawing, type LockQueue } from './drawing.tsx'
import { Events } from './events.tsx'
import { type Evicted, Evicting } from './evict-dialog.tsx'

export interface LineViewProps {
  readonly operation: string
  readonly resource: string
}

/** One wait queue: its holder, all waiters, how the last turn ended, and live events. */
export function WaitQueueView({ operation, resource }: LineViewProps): ReactNode {
  const say = useWords(locksWords)
  const client = useClient()
  const [evicted, evict] = useState<Evicted>()
  const key = { operation, resource }
  const line = useLive(['locks', 'line', key], () => client.locks.inspect(key), { everyMs: 2_000 })
  const holder = line.data?.holder
  return (
    <Page
      title={visible(resource)}
      lead={
        <>
          <Link to="locks">{say('allLines')}</Link> · {say('operation')}{' '}
          <Link to="locks" query={{ operation }}>
            {visible(operation)}
          </Link>
        </>
      }
      actions={
        holder && (
          <Action scope="admin" look="danger" onPress={() => evict({ ...key, ...holder, isHolder: true })}>
            {say('evictHolder')}
          </Action>
        )
      }
    >
      <Loaded query={line}>
        {(whole) => (
          <>
            {whole.holder === null && whole.waiterCount === 0 ? (
              <Empty icon="locks" title={say('idle')}>
                <p>{say('idleNext')}</p>
              </Empty>
            ) : (
              <div className="card locks-whole">
                <Drawing line={whole} onEvict={evict} />
              </div>
            )}
            <LastOutcome outcome={whole.lastOutcome} />
          </>
        )}
      </Loaded>
      <Events operation={operation} resource={resource} />
      {evicted && <Evicting evicted={evicted} onClose={() => evict(undefined)} />}
    </Page>
  )
}

function LastOutcome({ outcome }: { readonly outcome: LockQueue['lastOutcome'] }): ReactNode {
  const say = useWords(locksWords)
  return (
    <Section title={say('lastOutcome')}>
      {outcome === null ? (
        <p className="aside">{say('noOutcome')}</p>
      ) : (
        <div className="card locks-outcome">
          <p>
            <Badge
              tone={outcome.outcome === 'success' ? 'good' : 'bad'}
              icon={outcome.outcome === 'success' ? 'completed' : 'dead'}
            >
              {say(outcome.outcome)}
            </Badge>{' '}
            {say('endedBy', { node: visible(outcome.node), attempt: outcome.attempt })}{' '}
            <span className="aside">
              <Time at={outcome.at} />
            </span>
          </p>
          {outcome.result !== undefined && outcome.result !== null && (
            <Json value={outcome.result} label={say('result')} />
          )}
          {outcome.error !== undefined && <Json value={outcome.error} label={say('error')} />}
        </div>
      )}
    </Section>
  )
}

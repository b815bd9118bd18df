import { type ReactNode, useRef } from 'react'
import type { LocksClient } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Bar } from '../../kit/bar.tsx'
import { Icon } from '../../kit/icon.tsx'
import { Text } from '../../kit/text/text.tsx'
import { useNow } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { Link } from '../../shell/router.tsx'
import { useFormat, useWords } from '../../words/language.tsx'
import { locksWords } from '../../words/locks.ts'
import type { Evicted } from './evict-dialog.tsx'
import { readProgress } from './progress.ts'

export type LockQueue = Awaited<ReturnType<LocksClient['inspect']>>
type Holder = NonNullable<LockQueue['holder']>
type Waiter = LockQueue['waiters'][number]

export interface DrawingProps {
  readonly line: Pick<LockQueue, 'operation' | 'resource' | 'holder' | 'waiters' | 'waiterCount'>
  /** With this function, waiters can be evicted. */
  readonly onEvict?: (evicted: Evicted) => void
}

/**
 * Draws a wait queue from its head: the holder, then the waiters in order.
 *
 *     [ holder · lease · progress ] ‹ [1 waiter] [2 waiter] [3 waiter] and 4 more
 */
export function Drawing({ line, onEvict }: DrawingProps): ReactNode {
  const say = useWords(locksWords)
  const { holder, waiters, waiterCount } = line
  const moreCount = waiterCount - waiters.length
  return (
    <div className="locks-drawing">
      {holder === null ? (
        <div className="locks-holder is-free">
          <strong>{say('free')}</strong>
          {waiterCount > 0 && <span className="aside">{say('freeWaited')}</span>}
        </div>
      ) : (
        <HolderBox
          key={`${holder.requestId} ${holder.since}`}
          holder={holder}
          isWhole={onEvict !== undefined}
        />
      )}
      {waiterCount > 0 && (
        <>
          <Icon name="next" />
          <ol className="locks-waiters" aria-label={say('waiters')}>
            {waiters.map((waiter) => (
              <WaiterBox
                key={`${waiter.node}\n${waiter.requestId}`}
                waiter={waiter}
                onEvict={onEvict && (() => onEvict({ ...line, ...waiter, isHolder: false }))}
              />
            ))}
            {moreCount > 0 && (
              <li className="locks-more">
                {onEvict ? (
                  <span className="aside">{say('andMore', { count: moreCount })}</span>
                ) : (
                  <Link to="locks" query={{ operation: line.operation, resource: line.resource }}>
                    {say('andMore', { count: moreCount })}
                  </Link>
                )}
              </li>
            )}
          </ol>
        </>
      )}
    </div>
  )
}

function HolderBox({ holder, isWhole }: { readonly holder: Holder; readonly isWhole: boolean }): ReactNode {
  const say = useWords(locksWords)
  const format = useFormat()
  const now = useNow()
  const { node, attempt, since, expiresAt } = holder
  const leftMs = Math.max(0, expiresAt - now)
  // The server does not send the lease length: use the longest remaining time seen so far.
  const longestMs = useRef(0)
  longestMs.current = Math.max(longestMs.current, leftMs)
  const share = longestMs.current === 0 ? 0 : leftMs / longestMs.current
  const left = leftMs === 0 ? say('leaseOver') : say('leaseLeft', { span: format.span(seconds(leftMs)) })
  return (
    <div className="locks-holder">
      <p className="locks-name">
        <span className="hidden">{say('holder')}</span>
        <Icon name="locks" />
        <NodeName node={node} />
      </p>
      <p className="aside">
        {say('heldFor', { span: format.span(seconds(now - since)) })}
        {attempt > 1 && ` · ${say('attempt', { attempt })}`}
      </p>
      {isWhole && <RequestId {...holder} />}
      <ProgressLine progress={holder.progress} />
      <div className="locks-lease">
        <Bar share={share} label={left} tone={share < 0.25 ? 'warn' : 'good'} />
        <span>{left}</span>
      </div>
    </div>
  )
}

function ProgressLine({ progress }: { readonly progress: unknown }): ReactNode {
  const say = useWords(locksWords)
  const format = useFormat()
  const read = readProgress(progress)
  if (read === null) return null
  const percent = read.share === null ? null : format.percent(read.share)
  return (
    <div className="locks-progress">
      {percent !== null && <Bar share={read.share!} label={say('progressLabel', { percent })} tone="info" />}
      <span className="locks-note">
        {percent} {read.note !== null && <Text value={read.note} cut />}
      </span>
    </div>
  )
}

function WaiterBox({
  waiter,
  onEvict,
}: {
  readonly waiter: Waiter
  readonly onEvict: (() => void) | undefined
}): ReactNode {
  const say = useWords(locksWords)
  const format = useFormat()
  const now = useNow()
  const { node, position, since, want } = waiter
  return (
    <li className="locks-waiter">
      <p className="locks-name">
        <Icon name="person" />
        <NodeName node={node} />
        <span className="locks-place" title={say('place', { position })}>
          {format.number(position)}
        </span>
      </p>
      <p className="aside">{say('waitsSince', { span: format.span(seconds(now - since)) })}</p>
      <p className="aside" title={say(want === 'turn' ? 'wantsTurnMeans' : 'wantsResultMeans')}>
        {say(want === 'turn' ? 'wantsTurn' : 'wantsResult')}
      </p>
      {onEvict && <RequestId {...waiter} />}
      {onEvict && (
        <Action
          scope="admin"
          look="quiet"
          icon="dead"
          label={say('evictOf', { node: visible(node) })}
          onPress={onEvict}
        >
          {say('evict')}
        </Action>
      )}
    </li>
  )
}

const jobPrefix = 'job:'

/** The name of a node; a waiting job links to its page. */
function NodeName({ node }: { readonly node: string }): ReactNode {
  if (!node.startsWith(jobPrefix)) return <Text value={node} cut />
  return (
    <Link to="job" query={{ id: node.slice(jobPrefix.length) }}>
      <Text value={node} cut />
    </Link>
  )
}

/** The name of a node's request, if it has one. */
function RequestId({ node, requestId }: Pick<Waiter, 'node' | 'requestId'>): ReactNode {
  const say = useWords(locksWords)
  if (requestId === node) return null
  return (
    <p className="aside locks-note">
      {say('request')} <Text value={requestId} cut />
    </p>
  )
}

/** Whole seconds, one at least: a number that ticks should not flicker. */
function seconds(ms: number): number {
  return Math.max(1, Math.round(ms / 1_000)) * 1_000
}

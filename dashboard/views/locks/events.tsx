import type { ReactNode } from 'react'
import type { WireLockEvent } from '../../../src/http/client/index.ts'
import { Section } from '../../kit/page.tsx'
import { Badge, type BadgeProps } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLiveness } from '../../live/connection.ts'
import type { Say } from '../../words/catalogue.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { locksWords } from '../../words/locks.ts'
import { useHappenings } from './lock-events.ts'
import { readProgress } from './progress.ts'

/** Live events of a wait queue, newest first. */
export function Events({
  operation,
  resource,
}: {
  readonly operation: string
  readonly resource: string
}): ReactNode {
  const say = useWords(locksWords)
  const format = useFormat()
  const { paused } = useLiveness()
  const happenings = useHappenings(operation, resource)
  return (
    <Section title={say('events')}>
      {happenings.length === 0 && <p className="aside">{say(paused ? 'eventsPaused' : 'eventsNone')}</p>}
      {happenings.length > 0 && (
        <ol className="card locks-events" aria-label={say('events')}>
          {happenings.map(({ event, at }) => (
            <li key={`${event.id} ${at}`}>
              <span className="aside">
                <Time at={at} />
              </span>
              <Kind type={event.type} />
              <Text value={tell(event, say, format.percent)} />
            </li>
          ))}
        </ol>
      )}
    </Section>
  )
}

const kinds: Readonly<
  Record<
    string,
    Pick<BadgeProps, 'tone' | 'icon'> & { readonly word: keyof typeof locksWords & `event${string}` }
  >
> = {
  reset: { tone: 'calm', icon: 'info', word: 'eventWatching' },
  granted: { tone: 'info', icon: 'locks', word: 'eventGranted' },
  progress: { tone: 'busy', icon: 'running', word: 'eventProgress' },
  completed: { tone: 'good', icon: 'completed', word: 'eventCompleted' },
  failed: { tone: 'bad', icon: 'dead', word: 'eventFailed' },
  queued: { tone: 'warn', icon: 'waiting', word: 'eventQueued' },
}

function Kind({ type }: { readonly type: string }): ReactNode {
  const say = useWords(locksWords)
  const kind = Object.hasOwn(kinds, type) ? kinds[type] : undefined
  if (kind === undefined) return <Badge tone="calm">{type}</Badge>
  const { word, ...look } = kind
  return <Badge {...look}>{say(word)}</Badge>
}

/** An event in a few words; its type stands beside it. */
function tell(event: WireLockEvent, say: Say<typeof locksWords>, percent: (share: number) => string): string {
  const node = String(event.node)
  const waiting = (count: unknown) =>
    count === 0 ? say('nobodyWaits') : say('waiting', { count: Number(count) })
  switch (event.type) {
    case 'reset': {
      const holder = event.holder as { readonly node: string } | null
      const held = holder === null ? say('free') : say('toldHeld', { node: holder.node })
      return say('toldBegin', { held, waiting: waiting(event.waiterCount) })
    }
    case 'queued':
      return waiting(event.position)
    case 'granted':
      return say('toldGranted', { node, attempt: Number(event.attempt) })
    case 'progress':
      return say('toldProgress', { node, progress: inWords(event.progress, percent) })
    case 'completed':
      return event.result === null || event.result === undefined ? '' : inWords(event.result, percent)
    case 'failed':
      return String((event.error as { readonly message?: unknown } | undefined)?.message ?? '')
    default:
      return ''
  }
}

function inWords(value: unknown, percent: (share: number) => string): string {
  const read = readProgress(value)
  if (read === null) return ''
  return [read.share === null ? null : percent(read.share), read.note].filter(Boolean).join(' ')
}

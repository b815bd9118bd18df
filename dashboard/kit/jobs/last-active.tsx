import type { ReactNode } from 'react'
import type { LiveQueue } from '../../live/queues.ts'
import { useWords } from '../../words/language.tsx'
import { queuesWords } from '../../words/queues.ts'
import { Time } from '../text/time.tsx'

export interface LastActiveProps {
  readonly queue: LiveQueue
  /** When queues had work last, to the hour. */
  readonly active: ReadonlyMap<string, number>
}

/** When a queue had work last: now, or at some time within the last 48 hours. */
export function LastActive({ queue, active }: LastActiveProps): ReactNode {
  const say = useWords(queuesWords)
  if (queue.running > 0) return say('activeNow')
  const at = queue.emptiedAt ?? active.get(queue.queue)
  return at === undefined ? <span className="aside">–</span> : <Time at={at} />
}

import type { QueueStats } from '../../jobs/index.ts'
import { showSpan } from '../table.ts'
import { type Finding, ok, warning } from './finding.ts'

/** So long the oldest ready job of a queue may wait; the dashboard says the same. */
const behindMs = 60_000
/** So many jobs that ended are many to keep for ever. */
export const manyEnded = 10_000

/** What is stuck in queues: dead jobs, paused ones with jobs in them, and jobs that nobody claims. */
export function judgeQueues(queues: readonly QueueStats[], now: number): readonly Finding[] {
  const findings = queues.flatMap((line) => judgeQueue(line, now))
  if (findings.length > 0) return findings
  return [
    ok(
      'queues',
      'queues',
      `${queues.length} looked at: none has dead jobs, is behind, or is paused with jobs in it.`,
    ),
  ]
}

function judgeQueue({ queue, dead, paused, ready, oldestReadyAt }: QueueStats, now: number): Finding[] {
  const findings: Finding[] = []
  if (dead > 0)
    findings.push(
      warning(
        'queues',
        queue,
        `${dead} of its jobs ${dead === 1 ? 'is' : 'are'} dead.`,
        `See why with \`signalbox jobs ls --search "queue:${queue} state:dead"\`, then \`signalbox jobs bulk retry\` or \`delete\`.`,
      ),
    )
  if (paused && ready > 0)
    findings.push(
      warning(
        'queues',
        queue,
        `It is paused, and ${ready} of its jobs ${ready === 1 ? 'waits' : 'wait'}.`,
        `Resume it with \`signalbox queues resume ${queue}\`.`,
      ),
    )
  if (!paused && oldestReadyAt !== null && now - oldestReadyAt > behindMs)
    findings.push(
      warning(
        'queues',
        queue,
        `It is behind: ${ready} ready, the oldest for ${showSpan(now - oldestReadyAt)}.`,
        'Start more workers for it, or look why those that run claim nothing (their kinds, the queue’s limits).',
      ),
    )
  return findings
}

/** Jobs that ended are kept for ever, unless somebody says how long. `completed`: at least so many are kept. */
export function judgeRetention(source: string, retentionMs: number | undefined, completed: number): Finding {
  if (retentionMs !== undefined)
    return ok('retention', source, `Jobs that ended are forgotten after ${showSpan(retentionMs)}.`)
  if (completed < manyEnded)
    return ok('retention', source, 'Jobs that ended are kept for ever; there are not many yet.')
  return warning(
    'retention',
    source,
    `Jobs that ended are kept for ever, and there are at least ${completed} completed ones.`,
    'Set --retention, such as 30d.',
  )
}

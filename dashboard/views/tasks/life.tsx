import type { ReactNode } from 'react'
import type { WireFoundTask, WireTask } from '../../../src/http/client/index.ts'
import { Bar } from '../../kit/bar.tsx'
import { Icon, type IconName } from '../../kit/icon.tsx'
import { Section } from '../../kit/page.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time, useNow } from '../../kit/text/time.tsx'
import { useFormat, useWords } from '../../words/language.tsx'
import { tasksWords } from '../../words/tasks.ts'
import { TaskStatus } from './status.tsx'
import type { SeenEvent } from './use-events.ts'

type Stage = 'submitted' | 'assigned' | 'running' | 'ended'
const stages: readonly Stage[] = ['submitted', 'assigned', 'running', 'ended']
const words = {
  submitted: 'lifeSubmitted',
  assigned: 'lifeAssigned',
  running: 'lifeRunning',
  ended: 'lifeEnded',
} as const
const marks = {
  done: 'completed',
  failed: 'dead',
  cancelled: 'cancelled',
  now: 'running',
  ahead: 'ready',
  skipped: 'cancelled',
} as const satisfies Record<string, IconName>

export interface LifeProps {
  readonly task: WireFoundTask
  readonly events: readonly SeenEvent[]
}

/** The four stages of a task in a row: those behind it, the one it is in, those ahead. */
export function Life({ task, events }: LifeProps): ReactNode {
  const say = useWords(tasksWords)
  const format = useFormat()
  const progress = progressOf(task, events)
  const isRunning = task.status === 'running'
  return (
    <Section title={say('life')}>
      <div className="card">
        <ol className="tasks-life">
          {stages.map((stage) => (
            <Step key={stage} stage={stage} task={task} at={instantOf(stage, task, events)} />
          ))}
        </ol>
        {isRunning && progress !== null && (
          <div className="tasks-progress">
            {progress.percent !== null && (
              <Bar
                tone="busy"
                share={progress.percent / 100}
                label={say('progressOf', { percent: format.percent(progress.percent / 100) })}
              />
            )}
            <span>
              {progress.percent !== null && <strong>{format.percent(progress.percent / 100)}</strong>}{' '}
              {progress.note !== null && <Text value={progress.note} />}
            </span>
          </div>
        )}
      </div>
    </Section>
  )
}

/** The last word: of the stream, or of the task itself where the stream has told none yet. */
function progressOf({ attempt, progress }: WireFoundTask, events: readonly SeenEvent[]): Progress | null {
  const told = events.find((event) => event.type === 'progress' && event.attempt === attempt)
  if (told?.type !== 'progress') return progress
  return progress !== null && progress.at > told.at ? progress : told
}

type Progress = Pick<NonNullable<WireFoundTask['progress']>, 'percent' | 'note'>

interface StepProps {
  readonly stage: Stage
  readonly task: WireTask
  readonly at: number | null
}

function Step({ stage, task, at }: StepProps): ReactNode {
  const say = useWords(tasksWords)
  const format = useFormat()
  const now = useNow()
  const state = stateOf(stage, task)
  return (
    <li className={`is-${state}`} aria-current={state === 'now' ? 'step' : undefined}>
      <span className="tasks-mark">{state !== 'ahead' && <Icon name={marks[state]} />}</span>
      <strong>{say(words[stage])}</strong>
      {stage === 'ended' && task.finishedAt !== null && <TaskStatus status={task.status} />}
      {at !== null ? <Time at={at} /> : <span className="aside">{say(wordOf(stage, state))}</span>}
      {stage === 'ended' && task.finishedAt !== null && (
        <span className="aside">
          {say('tookSpan', { span: format.span(Math.max(0, task.finishedAt - task.submittedAt)) })}
        </span>
      )}
      {stage === 'submitted' && task.status === 'waiting' && (
        <span className="tasks-waits">
          {say('waitsNow')}{' '}
          <span className="aside">
            {say('forSpan', {
              span: format.span(Math.max(0, Math.floor((now - task.submittedAt) / 1_000) * 1_000)),
            })}
          </span>
        </span>
      )}
    </li>
  )
}

const reached = { waiting: 0, assigned: 1, running: 2, completed: 3, failed: 3, cancelled: 3 } as const

function stateOf(stage: Stage, { status, nodeId }: WireTask): keyof typeof marks {
  const place = stages.indexOf(stage)
  const at = reached[status]
  if (place === at) return status === 'failed' || status === 'cancelled' ? status : at === 3 ? 'done' : 'now'
  if (place > at) return 'ahead'
  // The task ended without a node, so no node is known to have run it.
  if (at === 3 && nodeId === null && (stage === 'assigned' || stage === 'running')) return 'skipped'
  return 'done'
}

function wordOf(stage: Stage, state: keyof typeof marks): 'ahead' | 'skipped' | 'now' | 'passed' {
  if (state === 'ahead') return 'ahead'
  if (state === 'skipped') return 'skipped'
  return state === 'now' && stage !== 'submitted' ? 'now' : 'passed'
}

/** When it came there, where that is known: how a task stood when one came says nothing about when it began to. */
function instantOf(stage: Stage, task: WireTask, events: readonly SeenEvent[]): number | null {
  if (stage === 'submitted') return task.submittedAt
  if (stage === 'ended') return task.finishedAt
  const seen = events.find(
    ({ type, isPresent, attempt }) => type === stage && !isPresent && attempt === task.attempt,
  )
  return seen?.at ?? null
}

import type { ReactNode } from 'react'
import type { WireFoundJob } from '../../../src/http/client/index.ts'
import { Bar } from '../../kit/bar.tsx'
import { Section } from '../../kit/page.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time, useNow } from '../../kit/text/time.tsx'
import { jobWords } from '../../words/job.ts'
import { useFormat, useWords } from '../../words/language.tsx'

interface Step {
  readonly word: 'added' | 'due' | 'started' | 'ended' | 'blockedDependencies' | 'blockedLock'
  readonly at: number
  readonly about: readonly string[]
}

/** When things happened to a job, how long each took, and how far it says it is. */
export function Timeline({ job }: { readonly job: WireFoundJob }): ReactNode {
  const say = useWords(jobWords)
  const format = useFormat()
  const now = useNow()
  const { createdAt, runAt, startedAt, finishedAt, progress, state } = job
  const ranMs = startedAt === null ? null : (finishedAt ?? (state === 'running' ? now : null))
  const steps: readonly (Step | undefined)[] = [
    { word: 'added', at: createdAt, about: [] },
    runAt > createdAt ? { word: 'due', at: runAt, about: [] } : undefined,
    startedAt === null
      ? undefined
      : {
          word: 'started',
          at: startedAt,
          about: [
            ...(startedAt >= runAt ? [say('waitedFor', { span: format.span(startedAt - runAt) })] : []),
            ...(ranMs === null ? [] : [say('ranFor', { span: format.span(Math.max(0, ranMs - startedAt)) })]),
          ],
        },
    ...job.blocked.map(
      ({ cause, startedAt: since, endedAt }): Step => ({
        word: cause === 'lock' ? 'blockedLock' : 'blockedDependencies',
        at: since,
        about: [
          say(endedAt === null ? 'blockedSoFar' : 'blockedFor', {
            span: format.span(Math.max(0, (endedAt ?? now) - since)),
          }),
        ],
      }),
    ),
    finishedAt === null ? undefined : { word: 'ended', at: finishedAt, about: [] },
  ]
  // Steps of the same instant stay in the order in which they are written here.
  const inOrder = steps.filter((step) => step !== undefined).toSorted((a, b) => a.at - b.at)
  return (
    <Section title={say('timeline')}>
      <div className="card">
        <ol className="job-timeline">
          {inOrder.map((step) => (
            <li key={`${step.word} ${step.at}`} className={step.at > now ? 'ahead' : undefined}>
              <strong>{say(step.word)}</strong>
              <span>
                <Time at={step.at} /> <span className="aside">{step.about.join(' · ')}</span>
              </span>
            </li>
          ))}
        </ol>
        {progress !== null && progress !== undefined && (
          <div className="job-progress">
            {progress.percent !== null && (
              <Bar
                share={progress.percent / 100}
                tone={state === 'running' ? 'busy' : 'calm'}
                label={say('progressOf', {
                  percent: format.percent(progress.percent / 100),
                  attempt: progress.attempt,
                })}
              />
            )}
            <span>
              {progress.note !== null && <Text value={progress.note} />}{' '}
              <span className="aside">
                <Time at={progress.at} />
              </span>
            </span>
          </div>
        )}
      </div>
    </Section>
  )
}

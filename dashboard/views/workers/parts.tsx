import type { ReactNode } from 'react'
import type { WireWorker } from '../../../src/http/client/index.ts'
import { Bar } from '../../kit/bar.tsx'
import { Badge, type BadgeProps } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { useNow } from '../../kit/text/time.tsx'
import { Link } from '../../shell/router.tsx'
import { useFormat, useWords } from '../../words/language.tsx'
import { workersWords } from '../../words/workers.ts'

interface OfWorker {
  readonly worker: WireWorker
}

const looks: Readonly<Record<WireWorker['state'], Pick<BadgeProps, 'tone' | 'icon'>>> = {
  running: { tone: 'good', icon: 'completed' },
  quiet: { tone: 'warn', icon: 'paused' },
  stopping: { tone: 'warn', icon: 'waiting' },
  gone: { tone: 'bad', icon: 'dead' },
}

/** What it does, and what an operator asked of it if it has not followed yet. */
export function WorkerState({ worker: { state, wanted } }: OfWorker): ReactNode {
  const say = useWords(workersWords)
  const follows = { run: 'running', quiet: 'quiet', stop: 'stopping' } as const
  const isAsked = state !== 'gone' && follows[wanted] !== state
  return (
    <span className="workers-state">
      <Badge {...looks[state]} title={say(`${state}Means`)}>
        {say(state)}
      </Badge>
      {isAsked && (
        <Badge tone="info" icon="waiting">
          {say(`asked_${wanted}`)}
        </Badge>
      )}
    </span>
  )
}

/** How many handlers it runs of how many it may. */
export function Busy({ worker: { runningCount, concurrency } }: OfWorker): ReactNode {
  const say = useWords(workersWords)
  const format = useFormat()
  if (runningCount === null) return <span className="aside">–</span>
  if (concurrency === null) return format.number(runningCount)
  const text = `${format.number(runningCount)}/${format.number(concurrency)}`
  const share = concurrency === 0 ? 0 : runningCount / concurrency
  return (
    <span className="workers-busy">
      <Bar share={share} tone={share >= 1 ? 'warn' : 'busy'} label={say('busyOf', { text })} />
      <span>{text}</span>
    </span>
  )
}

const shownJobs = 2

/** What it runs now, the longest first. */
export function RunsNow({ worker }: OfWorker): ReactNode {
  const say = useWords(workersWords)
  const format = useFormat()
  const now = useNow()
  const { running, runningCount } = worker
  if (running.length === 0) return <span className="aside">{say('idle')}</span>
  const moreCount = (runningCount ?? running.length) - Math.min(shownJobs, running.length)
  return (
    <ul className="workers-jobs">
      {running.slice(0, shownJobs).map(({ id, kind, since }) => (
        <li key={id}>
          <Link to="job" query={{ id }}>
            <Text value={kind} cut />
          </Link>{' '}
          <span className="aside">{format.span(Math.max(0, Math.round((now - since) / 1_000)) * 1_000)}</span>
        </li>
      ))}
      {moreCount > 0 && <li className="aside">{say('more', { count: moreCount })}</li>}
    </ul>
  )
}

/** The machine and the process. */
export function Place({ worker: { host, pid } }: OfWorker): ReactNode {
  if (host === null) return <span className="aside">–</span>
  return (
    <>
      <Text value={host} />
      {pid !== null && <span className="aside"> {pid}</span>}
    </>
  )
}

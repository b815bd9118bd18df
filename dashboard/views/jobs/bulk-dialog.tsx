import { type ReactNode, useState } from 'react'
import { type Client, isSignalboxError, type WireJob } from '../../../src/http/client/index.ts'
import { Confirm } from '../../kit/confirm.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { Problem } from '../../kit/problem.tsx'
import { Text } from '../../kit/text/text.tsx'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { jobsWords } from '../../words/jobs.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { useBulkCount } from './bulk-count.ts'
import {
  type Act,
  choicesFor,
  countChosen,
  countStates,
  defaultChoice,
  mustType,
  type StateCounts,
  searchChosen,
} from './bulk-states.ts'
import { everyJob } from './filters.ts'
import { StateChoice } from './state-choice.tsx'

type JobState = WireJob['state']

interface AskProps {
  readonly act: Act
  readonly counts: StateCounts
  readonly initial: readonly JobState[]
  readonly onConfirm: (chosen: readonly JobState[], total: number) => Promise<unknown>
  readonly onClose: () => void
  /** What the act applies to, once the states are chosen. */
  readonly scope?: (chosen: readonly JobState[]) => ReactNode
}

/** Asks with the exact number of jobs, by state. */
function Ask({ act, counts, initial, onConfirm, onClose, scope }: AskProps): ReactNode {
  const say = useWords(jobsWords)
  const [chosen, setChosen] = useState(initial)
  const total = countChosen(counts, chosen)
  return (
    <Confirm
      title={say(`${act}Some`, { count: total })}
      act={say(act)}
      danger={act === 'delete'}
      disabled={total === 0}
      typed={total > 0 && mustType(act, total, chosen) ? String(total) : undefined}
      onConfirm={() => onConfirm(chosen, total)}
      onClose={onClose}
    >
      <p>{say(`${act}Means`)}</p>
      <StateChoice act={act} counts={counts} chosen={chosen} onChange={setChosen} />
      {total === 0 && <p>{say(choicesFor(act, counts).length > 0 ? 'chooseState' : 'noneFit')}</p>}
      {scope?.(chosen)}
    </Confirm>
  )
}

export interface SelectedDialogProps {
  readonly act: Act
  readonly jobs: readonly WireJob[]
  readonly onDone: () => void
  readonly onClose: () => void
}

/** For the jobs that are selected on the page. */
export function SelectedDialog({ act, jobs, onDone, onClose }: SelectedDialogProps): ReactNode {
  const say = useWords(jobsWords)
  const client = useClient()
  // The live list keeps changing; the dialog keeps the selection it was opened with.
  const [asked] = useState(jobs)
  const counts = countStates(asked.map(({ state }) => state))
  const dead = defaultChoice(act, counts)
  const confirm = async (chosen: readonly JobState[]) => {
    const ids = asked.filter(({ state }) => chosen.includes(state)).map(({ id }) => id)
    const { doneCount, refusals } = await doTo(client, act, ids)
    if (refusals.length === 0) toast(say('doneSome', { count: doneCount }))
    else toast(say('doneBut', { count: doneCount, failed: refusals.length, why: refusals[0]! }), 'bad')
    onDone()
    await changed('jobs', 'job', 'queues', 'overview')
  }
  const initial = dead.length > 0 ? dead : choicesFor(act, counts)
  return <Ask act={act} counts={counts} initial={initial} onConfirm={confirm} onClose={onClose} />
}

/** One by one, four at a time. A job that refuses does not stop the others. */
async function doTo(
  client: Client,
  act: Act,
  ids: readonly string[],
): Promise<{ readonly doneCount: number; readonly refusals: readonly string[] }> {
  if (act === 'delete') {
    const { removed } = await client.jobs.remove(ids)
    const left = ids.length - removed.length
    return { doneCount: removed.length, refusals: Array.from({ length: left }, () => 'running') }
  }
  const refusals: string[] = []
  const rest = [...ids]
  const work = async () => {
    for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
      try {
        await client.jobs[act](id)
      } catch (error) {
        if (isSignalboxError(error, 'unauthorized')) throw error
        refusals.push((error as Error).message)
      }
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
  return { doneCount: ids.length - refusals.length, refusals }
}

export interface MatchingDialogProps {
  readonly act: Act
  readonly search: string
  /** The state that the filters name. */
  readonly filtered?: JobState | undefined
  readonly onClose: () => void
}

/** For everything that matches: counts first, asks with the number, then begins an operation on the server. */
export function MatchingDialog({ act, search, filtered, onClose }: MatchingDialogProps): ReactNode {
  const say = useWords(jobsWords)
  const format = useFormat()
  const client = useClient()
  const { counts, scanned, isComplete, error } = useBulkCount(act, search)
  if (error !== undefined || !isComplete) {
    return (
      <Dialog title={say(act)} onClose={onClose}>
        {error === undefined ? (
          <p role="status">{say('counting', { scanned: format.number(scanned) })}</p>
        ) : (
          <Problem error={error} />
        )}
      </Dialog>
    )
  }
  const confirm = async (chosen: readonly JobState[]) => {
    await client.jobs.bulk({ action: act, search: searchChosen(search, chosen, filtered) })
    toast(say('begun'))
    await changed('bulk', 'jobs')
  }
  return (
    <Ask
      act={act}
      counts={counts}
      initial={defaultChoice(act, counts, filtered)}
      onConfirm={confirm}
      onClose={onClose}
      scope={(chosen) => (
        <>
          {search === everyJob && <p>{say('everyJob')}</p>}
          <Text value={say('meant', { search: searchChosen(search, chosen, filtered) })} mono />
        </>
      )}
    />
  )
}

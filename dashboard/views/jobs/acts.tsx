import { type ReactNode, useEffect, useState } from 'react'
import { type Client, isSignalboxError, type WireBulkCount } from '../../../src/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { Problem } from '../../kit/problem.tsx'
import { Text } from '../../kit/text.tsx'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { jobsWords } from '../../words/jobs.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { everyJob } from './filters.ts'

type Act = 'retry' | 'cancel' | 'delete'
const acts: readonly Act[] = ['retry', 'cancel', 'delete']
/** Deleting more than so many asks for the number to be typed. */
const typedFrom = 100

export interface ActsProps {
  readonly selected: ReadonlySet<string>
  readonly onDone: () => void
  /** What the filters mean, in the grammar of searches. */
  readonly search: string
}

/** What can be done to the jobs that are selected, or else to everything that matches. */
export function Acts({ selected, onDone, search }: ActsProps): ReactNode {
  const say = useWords(jobsWords)
  const [act, setAct] = useState<Act>()
  const isSome = selected.size > 0
  const close = () => setAct(undefined)
  return (
    <div className="toolbar acts">
      <span className="aside">{isSome ? say('selected', { count: selected.size }) : say('everything')}</span>
      {acts.map((one) => (
        <Action
          key={one}
          scope={isSome && one !== 'delete' ? 'work' : 'admin'}
          look={one === 'delete' ? 'danger' : 'plain'}
          onPress={() => setAct(one)}
        >
          {say(one)}
        </Action>
      ))}
      {act && isSome && <ToSelected act={act} ids={[...selected]} onDone={onDone} onClose={close} />}
      {act && !isSome && <ToAll act={act} search={search} onClose={close} />}
    </div>
  )
}

interface ToSelectedProps {
  readonly act: Act
  readonly ids: readonly string[]
  readonly onDone: () => void
  readonly onClose: () => void
}

function ToSelected({ act, ids, onDone, onClose }: ToSelectedProps): ReactNode {
  const say = useWords(jobsWords)
  const client = useClient()
  const confirm = async () => {
    const { doneCount, refusals } = await doTo(client, act, ids)
    if (refusals.length === 0) toast(say('doneSome', { count: doneCount }))
    else toast(say('doneBut', { count: doneCount, failed: refusals.length, why: refusals[0]! }), 'bad')
    onDone()
    await changed('jobs', 'job', 'queues', 'overview')
  }
  return (
    <Confirm
      title={say(`${act}Some`, { count: ids.length })}
      act={say(act)}
      danger={act === 'delete'}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say(`${act}Means`)}</p>
    </Confirm>
  )
}

/** One by one but a few at a time; what one job refuses keeps nobody from the others. */
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

interface ToAllProps {
  readonly act: Act
  readonly search: string
  readonly onClose: () => void
}

/** Counts first, so that it can be asked with the number; then begins an operation that goes on by itself. */
function ToAll({ act, search, onClose }: ToAllProps): ReactNode {
  const say = useWords(jobsWords)
  const format = useFormat()
  const client = useClient()
  const [count, setCount] = useState<WireBulkCount>()
  const [error, setError] = useState<unknown>()
  useEffect(() => {
    let isGone = false
    client.jobs.bulk({ action: act, search, dryRun: true }).then(
      (found) => !isGone && setCount(found),
      (thrown) => !isGone && setError(thrown),
    )
    return () => {
      isGone = true
    }
  }, [client, act, search])

  if (error !== undefined || count === undefined) {
    return (
      <Dialog title={say(act)} onClose={onClose}>
        {error === undefined ? <p>{say('counting')}</p> : <Problem error={error} />}
      </Dialog>
    )
  }
  const { matched, scanned, stopped } = count
  const confirm = async () => {
    await client.jobs.bulk({ action: act, search })
    toast(say('begun'))
    await changed('bulk', 'jobs')
  }
  return (
    <Confirm
      title={say(`${act}Some`, { count: matched })}
      act={say(act)}
      danger={act === 'delete'}
      typed={act === 'delete' && matched > typedFrom ? String(matched) : undefined}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say(`${act}Means`)}</p>
      {stopped !== null && (
        <p>{say('atLeast', { count: format.number(matched), scanned: format.number(scanned) })}</p>
      )}
      <p>{search === everyJob ? say('everyJob') : <Text value={say('meant', { search })} mono />}</p>
    </Confirm>
  )
}

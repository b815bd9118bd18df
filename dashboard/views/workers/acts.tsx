import { type ReactNode, useState } from 'react'
import type { WireWorker } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Input } from '../../kit/field.tsx'
import { spanOf } from '../../kit/text/span.ts'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { workersWords } from '../../words/workers.ts'

export type WorkerAct = 'quiet' | 'resume' | 'stop'

/** What may be asked of a worker: it is quieted or resumed, and stopped. */
export function WorkerActs({ worker }: { readonly worker: WireWorker }): ReactNode {
  const say = useWords(workersWords)
  const [asked, ask] = useState<WorkerAct>()
  const isGone = worker.state === 'gone'
  const isStopping = worker.wanted === 'stop'
  const reason = say(isGone ? 'isGone' : 'isStopping')
  const isQuiet = worker.wanted === 'quiet'
  return (
    <>
      <Action
        scope="admin"
        disabled={isGone || isStopping}
        reason={reason}
        onPress={() => ask(isQuiet ? 'resume' : 'quiet')}
      >
        {say(isQuiet ? 'resume' : 'quieten')}
      </Action>
      <Action
        scope="admin"
        look="danger"
        disabled={isGone || isStopping}
        reason={reason}
        onPress={() => ask('stop')}
      >
        {say('stop')}
      </Action>
      {asked && <Asking worker={worker} act={asked} onClose={() => ask(undefined)} />}
    </>
  )
}

interface AskingProps {
  readonly worker: WireWorker
  readonly act: WorkerAct
  readonly onClose: () => void
}

const defaultGrace = '10s'

/** Asks before a worker is quieted, resumed or stopped. */
function Asking({ worker, act, onClose }: AskingProps): ReactNode {
  const say = useWords(workersWords)
  const client = useClient()
  // Keep the worker from when the dialog opened, so that an update does not change the question.
  const [{ id, runningCount }] = useState(worker)
  const [grace, write] = useState(defaultGrace)
  const confirm = async () => {
    if (act === 'stop') await client.jobs.stopWorker(id, { graceMs: spanOf(grace) })
    else await client.jobs[act === 'quiet' ? 'quietWorker' : 'resumeWorker'](id)
    toast(say(`${act}Done`, { worker: visible(id) }))
    await changed('workers', 'audit')
  }
  return (
    <Confirm
      title={say(`${act}Ask`, { worker: visible(id), count: runningCount ?? 0 })}
      act={say(act === 'quiet' ? 'quieten' : act)}
      danger={act === 'stop'}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say(`${act}WillMean`)}</p>
      {act === 'stop' && <Input live label={say('grace')} value={grace} onChange={write} />}
    </Confirm>
  )
}

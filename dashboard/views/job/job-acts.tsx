import { type ReactNode, useState } from 'react'
import type { Client, WireFoundJob } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { go } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { jobWords } from '../../words/job.ts'
import { jobsWords } from '../../words/jobs.ts'
import { useWords } from '../../words/language.tsx'

type Act = 'retry' | 'cancel' | 'delete'

/** What can be done to one job; what its state does not allow says so. */
export function JobActs({ job }: { readonly job: WireFoundJob }): ReactNode {
  const say = useWords(jobWords)
  const sayJobs = useWords(jobsWords)
  const client = useClient()
  const [act, setAct] = useState<Act>()
  const runs = job.state === 'running'
  const hasEnded = job.finishedAt !== null
  const confirm = async () => {
    await doTo(client, act!, job.id)
    toast(say('done'))
    if (act === 'delete') go('jobs')
    await changed('job', 'jobs', 'queues', 'overview', 'audit')
  }
  return (
    <>
      <Action scope="work" disabled={runs} reason={say('runsCannot')} onPress={() => setAct('retry')}>
        {say('retry')}
      </Action>
      <Action scope="work" disabled={hasEnded} reason={say('endedAlready')} onPress={() => setAct('cancel')}>
        {say('cancel')}
      </Action>
      <Action
        scope="admin"
        look="danger"
        disabled={runs}
        reason={say('runsCannot')}
        onPress={() => setAct('delete')}
      >
        {say('delete')}
      </Action>
      {act && (
        <Confirm
          title={say(`${act}One`)}
          act={say(act)}
          danger={act === 'delete'}
          onConfirm={confirm}
          onClose={() => setAct(undefined)}
        >
          <p>{sayJobs(`${act}Means`)}</p>
          {act === 'retry' && job.state === 'completed' && <strong>{sayJobs('runsAgain')}</strong>}
          {act === 'retry' && job.state === 'waiting' && <strong>{sayJobs('skipsDependencies')}</strong>}
        </Confirm>
      )}
    </>
  )
}

async function doTo(client: Client, act: Act, id: string): Promise<void> {
  if (act === 'delete') await client.jobs.remove([id])
  else await client.jobs[act](id)
}

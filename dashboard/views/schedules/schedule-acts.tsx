import { type ReactNode, useState } from 'react'
import type { Client, WireSchedule } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed, queryClient } from '../../live/queries.ts'
import { go } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import type { Say } from '../../words/catalogue.ts'
import { useWords } from '../../words/language.tsx'
import { schedulesWords } from '../../words/schedules.ts'
import { ScheduleForm } from './form.tsx'
import { hasHidden } from './written.ts'

type Act = 'run' | 'pause' | 'resume' | 'remove'

/** What can be done with a schedule. */
export function ScheduleActs({ schedule }: { readonly schedule: WireSchedule }): ReactNode {
  const say = useWords(schedulesWords)
  const client = useClient()
  const [asked, ask] = useState<Act | 'change'>()
  const close = () => ask(undefined)
  const turn = schedule.paused ? 'resume' : 'pause'
  const confirm = async (act: Act) => {
    toast(await doTo(client, act, schedule.name, say))
    if (act === 'remove') {
      go('schedules')
      // Stop polling the removed schedule.
      queryClient.removeQueries({ queryKey: ['schedules', 'one', schedule.name] })
    }
    await changed('schedules', 'audit', ...(act === 'run' ? (['jobs', 'queues', 'overview'] as const) : []))
  }
  return (
    <>
      <Action scope="admin" onPress={() => ask('run')}>
        {say('run')}
      </Action>
      <Action scope="admin" look={schedule.paused ? 'main' : 'plain'} onPress={() => ask(turn)}>
        {say(turn)}
      </Action>
      <Action
        scope="admin"
        disabled={hasHidden(schedule.job.payload)}
        reason={say('hiddenPayload')}
        onPress={() => ask('change')}
      >
        {say('change')}
      </Action>
      <Action scope="admin" look="danger" onPress={() => ask('remove')}>
        {say('remove')}
      </Action>
      {asked === 'change' && <ScheduleForm schedule={schedule} onClose={close} />}
      {asked !== undefined && asked !== 'change' && (
        <Confirm
          title={say(`${asked}One`, { name: visible(schedule.name) })}
          act={say(asked)}
          danger={asked === 'remove'}
          onConfirm={() => confirm(asked)}
          onClose={close}
        >
          <p>{say(`${asked}Means`)}</p>
        </Confirm>
      )}
    </>
  )
}

/** Does it, and answers what to say of it. */
async function doTo(
  client: Client,
  act: Act,
  name: string,
  say: Say<typeof schedulesWords>,
): Promise<string> {
  const { schedules } = client.jobs
  if (act === 'run') {
    const { id, duplicate } = await schedules.run(name)
    return say(duplicate ? 'runKnown' : 'runDone', { id })
  }
  await schedules[act](name)
  return say(`${act}Done`, { name: visible(name) })
}

import type { ReactNode } from 'react'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { queuesWords } from '../../words/queues.ts'
import { Confirm } from '../confirm.tsx'
import { toast } from '../toast.tsx'

export interface SwitchingProps {
  readonly act: 'pause' | 'resume'
  readonly queues: readonly string[]
  readonly onClose: () => void
  readonly onDone?: () => void
}

/** Asks before queues are paused or resumed. */
export function Switching({ act, queues, onClose, onDone }: SwitchingProps): ReactNode {
  const say = useWords(queuesWords)
  const client = useClient()
  const confirm = async () => {
    for (const queue of queues) await client.jobs[act](queue)
    toast(say(act === 'pause' ? 'pausedSome' : 'resumedSome', { count: queues.length }))
    onDone?.()
    await changed('queues', 'overview', 'audit')
  }
  return (
    <Confirm
      title={say(`${act}Some`, { count: queues.length })}
      act={say(act)}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say(`${act}Means`)}</p>
    </Confirm>
  )
}

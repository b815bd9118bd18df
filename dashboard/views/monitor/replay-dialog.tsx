import type { ReactNode } from 'react'
import { Confirm } from '../../kit/confirm.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import type { Notification } from './delivery.tsx'

export interface ReplayingProps {
  readonly notification: Notification
  readonly onClose: () => void
}

/** Asks before a dead or held notification is sent again. */
export function Replaying({ notification, onClose }: ReplayingProps): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const { id, status, subscription, error } = notification
  const name = subscription === null ? say('ended') : visible(subscription)
  const confirm = async () => {
    await client.monitor.replay(id)
    toast(say('replayed'))
    await changed('monitor', 'audit')
  }
  return (
    <Confirm title={say('replayOne')} act={say('replay')} onConfirm={confirm} onClose={onClose}>
      <p>{say(status === 'held' ? 'replayHeld' : 'replayDead', { name })}</p>
      {error !== null && <p className="monitor-said">{visible(error.message)}</p>}
    </Confirm>
  )
}

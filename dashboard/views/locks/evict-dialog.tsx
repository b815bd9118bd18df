import type { ReactNode } from 'react'
import { Confirm } from '../../kit/confirm.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { locksWords } from '../../words/locks.ts'

/** The node to evict, and the wait queue it is in. */
export interface Evicted {
  readonly operation: string
  readonly resource: string
  readonly node: string
  readonly requestId: string
  readonly isHolder: boolean
}

/** Asks before a holder or a waiter is evicted. */
export function Evicting({
  evicted,
  onClose,
}: {
  readonly evicted: Evicted
  readonly onClose: () => void
}): ReactNode {
  const say = useWords(locksWords)
  const client = useClient()
  const { operation, resource, node, requestId, isHolder } = evicted
  const confirm = async () => {
    await client.locks.evict({ operation, resource, node, requestId })
    toast(say('evicted', { node: visible(node) }))
    await changed('locks', 'audit')
  }
  return (
    <Confirm
      danger
      title={say(isHolder ? 'evictHolderOne' : 'evictWaiterOne', { node: visible(node) })}
      act={say('evict')}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say(isHolder ? 'evictHolderMeans' : 'evictWaiterMeans')}</p>
    </Confirm>
  )
}

import type { ReactNode } from 'react'
import { Confirm } from '../../kit/confirm.tsx'
import { Text } from '../../kit/text/text.tsx'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { onceWords } from '../../words/once.ts'
import type { GuardSpace } from './guard-filters.ts'

export interface ForgettingProps {
  readonly keys: readonly string[]
  readonly space: GuardSpace
  readonly onClose: () => void
  readonly onDone: () => void
}

/** How many keys the question names. */
const namedKeys = 5

/** Asks before keys are forgotten. */
export function Forgetting({ keys, space, onClose, onDone }: ForgettingProps): ReactNode {
  const say = useWords(onceWords)
  const client = useClient()
  const confirm = async () => {
    let count = 0
    try {
      for (const key of keys) if (await client.once.forget({ key, space })) count++
    } finally {
      if (count > 0) await changed('once', 'audit')
    }
    toast(say('forgotSome', { count }))
    onDone()
  }
  return (
    <Confirm
      danger
      title={say('forgetSome', { count: keys.length })}
      act={say('forget')}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say('forgetMeans')}</p>
      <ul className="once-keys">
        {keys.slice(0, namedKeys).map((key) => (
          <li key={key}>
            <Text value={key} mono cut />
          </li>
        ))}
        {keys.length > namedKeys && <li aria-hidden="true">…</li>}
      </ul>
    </Confirm>
  )
}

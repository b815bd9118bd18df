import type { ReactNode } from 'react'
import type { WireTask } from '../../../src/http/client/index.ts'
import { Badge, State } from '../../kit/state.tsx'
import { useWords } from '../../words/language.tsx'
import { tasksWords } from '../../words/tasks.ts'

/** How a task stands. */
export function TaskStatus({ status }: { readonly status: WireTask['status'] }): ReactNode {
  const say = useWords(tasksWords)
  if (status !== 'assigned') return <State name={status} />
  return (
    <Badge tone="info" icon="tasks" title={say('assignedMeans')}>
      {say('assigned')}
    </Badge>
  )
}

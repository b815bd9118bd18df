import type { ReactNode } from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button } from './button.tsx'
import type { SteadyRows } from './steady-rows.ts'

/** How many rows wait, as a button that lets them in. It lies over the list, so that no row moves when it appears. */
export function News({
  steady: { newCount, goneCount, letIn },
}: {
  readonly steady: SteadyRows<unknown>
}): ReactNode {
  const say = useWords(kitWords)
  if (newCount + goneCount === 0) return null
  const parts = [
    newCount > 0 && say('rowsNew', { count: newCount }),
    goneCount > 0 && say('rowsGone', { count: goneCount }),
  ]
  return (
    <div className="table-news">
      <Button onPress={letIn}>{parts.filter(Boolean).join(' · ')}</Button>
    </div>
  )
}

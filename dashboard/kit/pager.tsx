import type { ReactNode } from 'react'
import { go, usePlace } from '../shell/router.tsx'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button } from './button.tsx'

export interface PagerProps {
  /** Where the next page begins; null: there is none. */
  readonly next: string | null
  /** A note on the shown rows. */
  readonly children?: ReactNode
}

/** Turns the pages of a list; where one begins is in the address (`cursor`), and the browser's back goes back. */
export function Pager({ next, children }: PagerProps): ReactNode {
  const say = useWords(kitWords)
  const { view, query } = usePlace()
  const isFirst = query.cursor === undefined
  if (isFirst && next === null && children === undefined) return null
  return (
    <div className="pager">
      <span className="aside">{children}</span>
      {!isFirst && <Button onPress={() => go(view, { ...query, cursor: undefined })}>{say('newer')}</Button>}
      {next !== null && (
        <Button icon="next" onPress={() => go(view, { ...query, cursor: next })}>
          {say('older')}
        </Button>
      )}
    </div>
  )
}

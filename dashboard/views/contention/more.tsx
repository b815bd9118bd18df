import { type ReactNode, useState } from 'react'
import { Button } from '../../kit/button.tsx'
import { contentionWords } from '../../words/contention.ts'
import { useWords } from '../../words/language.tsx'

export interface MoreProps<Row> {
  readonly rows: readonly Row[]
  /** How many are shown at first. */
  readonly first: number
  readonly children: (rows: readonly Row[]) => ReactNode
}

/** The first of a long list, and a button for the rest. */
export function More<Row>({ rows, first, children }: MoreProps<Row>): ReactNode {
  const say = useWords(contentionWords)
  const [isAll, showAll] = useState(false)
  return (
    <>
      {children(isAll ? rows : rows.slice(0, first))}
      {rows.length > first && (
        <div className="contention-more">
          <Button look="quiet" onPress={() => showAll(!isAll)}>
            {isAll ? say('showFewer') : say('showAll', { count: rows.length })}
          </Button>
        </div>
      )}
    </>
  )
}

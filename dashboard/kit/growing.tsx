import { type ReactNode, useState } from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button } from './button.tsx'

export interface GrowingProps<Item> {
  readonly items: readonly Item[]
  /** How many are shown at first, and how many more at each press. */
  readonly step: number
  readonly children: (items: readonly Item[]) => ReactNode
}

/** The first of a long list that is here already, and a button for more of it. */
export function Growing<Item>({ items, step, children }: GrowingProps<Item>): ReactNode {
  const say = useWords(kitWords)
  const [count, setCount] = useState(step)
  const leftCount = items.length - count
  return (
    <>
      {children(items.slice(0, count))}
      {leftCount > 0 && (
        <div className="pager">
          <Button icon="down" onPress={() => setCount(count + step)}>
            {say('showNext', { count: Math.min(step, leftCount), all: items.length })}
          </Button>
        </div>
      )}
    </>
  )
}

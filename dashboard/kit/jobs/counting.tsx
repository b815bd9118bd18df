import type { ReactNode } from 'react'
import { kitWords } from '../../words/kit.ts'
import { useWords } from '../../words/language.tsx'

/** Stands where numbers of jobs will: there are very many, and the server has not counted them yet. */
export function Counting(): ReactNode {
  const say = useWords(kitWords)
  return (
    <p className="loading aside" role="status">
      {say('counting')}
    </p>
  )
}

import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Problem } from './problem.tsx'

export interface LoadedProps<Data> {
  readonly query: UseQueryResult<Data>
  readonly children: (data: Data) => ReactNode
}

/** What was asked for: the problem, if there is one, above what is known; a quiet word until something is. */
export function Loaded<Data>({ query, children }: LoadedProps<Data>): ReactNode {
  const say = useWords(kitWords)
  return (
    <>
      {query.error !== null && <Problem error={query.error} onRetry={() => void query.refetch()} />}
      {query.data !== undefined && children(query.data)}
      {query.isPending && query.error === null && <p className="loading aside">{say('loading')}</p>}
    </>
  )
}

import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useLiveness } from '../live/connection.ts'
import { lossOf } from '../live/loss.ts'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Problem } from './problem.tsx'

export interface LoadedProps<Data> {
  readonly query: UseQueryResult<Data>
  readonly children: (data: Data) => ReactNode
}

/** What was asked for, with its problem above it. A lost server is the banner's to report, once for the whole page. */
export function Loaded<Data>({ query, children }: LoadedProps<Data>): ReactNode {
  const say = useWords(kitWords)
  const { lostAt } = useLiveness()
  const isReported = lostAt !== null && lossOf(query.error) !== undefined
  return (
    <>
      {query.error !== null && !isReported && (
        <Problem error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data !== undefined && children(query.data)}
      {query.isPending && <p className="loading aside">{say('loading')}</p>}
    </>
  )
}

import type { ReactNode } from 'react'
import { Text } from '../../kit/text.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { readState } from './statetext.ts'

export interface ChangeProps {
  /** JSON, perhaps shortened; null: it was not known. */
  readonly from: string | null
  readonly to: string
}

/** From which state to which. */
export function Change({ from, to }: ChangeProps): ReactNode {
  const say = useWords(monitorWords)
  return (
    <span className="monitor-change">
      {from === null ? (
        <span className="aside">{say('wasUnknown')}</span>
      ) : (
        <Text value={readState(from)} mono cut />
      )}
      <span className="aside">→</span>
      <Text value={readState(to)} mono cut />
    </span>
  )
}

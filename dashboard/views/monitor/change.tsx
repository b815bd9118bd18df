import type { ReactNode } from 'react'
import { Text } from '../../kit/text/text.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { stateText } from './state-text.ts'

export interface ChangeProps {
  /** The state before; null: it was not known. */
  readonly from: unknown
  readonly to: unknown
}

/** From which state to which. */
export function Change({ from, to }: ChangeProps): ReactNode {
  const say = useWords(monitorWords)
  return (
    <span className="monitor-change">
      {from === null ? (
        <span className="aside">{say('wasUnknown')}</span>
      ) : (
        <Text value={stateText(from)} mono cut />
      )}
      <span className="aside">→</span>
      <Text value={stateText(to)} mono cut />
    </span>
  )
}

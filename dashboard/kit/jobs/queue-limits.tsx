import type { ReactNode } from 'react'
import type { WireQueueStats } from '../../../src/http/client/index.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { queuesWords } from '../../words/queues.ts'

type Limits = NonNullable<WireQueueStats['limits']>

/** The limits of a queue in a few words. */
export function LimitsText({ limits }: { readonly limits: Limits | null }): ReactNode {
  const say = useWords(queuesWords)
  const format = useFormat()
  if (limits === null) return <span className="aside">{say('noLimits')}</span>
  const tell = ({ concurrency, rate }: Pick<Limits, 'concurrency' | 'rate'>): readonly string[] => [
    ...(concurrency === null ? [] : [say('atOnce', { count: concurrency })]),
    ...(rate === null ? [] : [say('perSpan', { count: rate.count, span: format.span(rate.perMs) })]),
  ]
  const whole = tell(limits).join(say('limitComma'))
  if (limits.perKey === null) return whole
  const perKey = say('eachKey', { limits: tell(limits.perKey).join(say('limitComma')) })
  return whole === '' ? perKey : `${whole}${say('limitSemicolon')}${perKey}`
}

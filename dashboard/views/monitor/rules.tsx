import type { ReactNode } from 'react'
import { useFormat, useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import type { Subscription } from './subscriptions/subscriber-names.ts'

/** The rules of a subscription besides its matches: its window first, then the settings that differ from the defaults. */
export function Rules({ subscription }: { readonly subscription: Subscription }): ReactNode {
  const say = useWords(monitorWords)
  const format = useFormat()
  const { windowMs, digestMs, throttle, flap, notifyNew, reconcile, onAmbiguous } = subscription
  const rules = [
    windowMs === 0 ? say('noWindow') : say('windowOf', { span: format.span(windowMs) }),
    digestMs > 0 && say('digestOf', { span: format.span(digestMs) }),
    throttle && say('throttleOf', { count: throttle.max, span: format.span(throttle.perMs) }),
    flap && say('flapOf', { count: flap.changes, span: format.span(flap.withinMs) }),
    notifyNew && say('notifiesNew'),
    reconcile && say('reconciles'),
    onAmbiguous === 'hold' && say('holds'),
  ]
  return <ul className="monitor-rules">{rules.map((rule) => rule && <li key={rule}>{rule}</li>)}</ul>
}

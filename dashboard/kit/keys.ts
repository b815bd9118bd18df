import { useEffect, useRef } from 'react'

/** What a key does, by the key as the browser names it: 'j', '?', 'Enter', or two after each other: 'g j'. */
export type Keys = Readonly<Record<string, (() => void) | undefined>>

/** The active listeners; the newest is asked first. */
const listeners: { readonly keys: () => Keys }[] = []
let first: { readonly key: string; readonly at: number } | undefined
/** The time limit for the second key of a pair. */
const pairMs = 1_500

/** Listens for keys while the component is shown, except during typing or while a dialog is open. */
export function useKeys(keys: Keys): void {
  const now = useRef(keys)
  now.current = keys
  useEffect(() => {
    const mine = { keys: () => now.current }
    listeners.push(mine)
    if (listeners.length === 1) document.addEventListener('keydown', hear)
    return () => {
      listeners.splice(listeners.indexOf(mine), 1)
      if (listeners.length === 0) document.removeEventListener('keydown', hear)
    }
  }, [])
}

function hear(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
  if (isTyping(event.target) || document.querySelector('dialog[open]') !== null) return
  const isPair = first !== undefined && event.timeStamp - first.at < pairMs
  const found = (isPair && find(`${first!.key} ${event.key}`)) || find(event.key)
  first = beginsPair(event.key) ? { key: event.key, at: event.timeStamp } : undefined
  if (!found) return
  event.preventDefault()
  found()
}

function find(key: string): (() => void) | undefined {
  for (const { keys } of listeners.toReversed()) {
    const does = keys()[key]
    if (does) return does
  }
  return undefined
}

function beginsPair(key: string): boolean {
  return listeners.some(({ keys }) => Object.keys(keys()).some((one) => one.startsWith(`${key} `)))
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  )
}

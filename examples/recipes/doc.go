// Package recipes has the programs of docs/recipes.md, which explains them. Copy what you need.
package recipes
